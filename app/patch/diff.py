"""The patch that turns one document into another."""

from typing import Final

from app.model.json import JSON, JSONObject
from app.patch.equality import identical
from app.patch.pointer import escape

# Aligning two lists compares their elements pairwise; beyond this many pairs they are compared in place instead.
_MOST_PAIRS: Final = 4096
_MISSING: Final = object()


def diff(before: JSON, after: JSON) -> list[JSONObject]:
    """Return a small RFC 6902 patch that makes ``after`` of ``before``, to the type of each number.

    Branches that both share by identity cost nothing, so a document changed by copy-on-write is compared along the
    changes only. The patch means the same in the kubernetes dialect.
    """
    operations: list[JSONObject] = []
    if before is not after:
        _compare(before, after, "", operations)
    return operations


def _compare(before: JSON, after: JSON, path: str, operations: list[JSONObject]) -> None:
    if type(before) is dict and type(after) is dict:
        _compare_objects(before, after, path, operations)
    elif type(before) is list and type(after) is list:
        _compare_lists(before, after, path, operations)
    elif type(before) is not type(after) or before != after:
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_objects(before: JSONObject, after: JSONObject, path: str, operations: list[JSONObject]) -> None:
    if path and before and after and next(iter(before)) not in after and before.keys().isdisjoint(after):
        # Nothing in common: one replace is shorter than removing and adding every member.
        operations.append({"op": "replace", "path": path, "value": after})
        return
    common = len(before)
    for name, present in before.items():
        wanted = after.get(name, _MISSING)
        if wanted is present:
            continue
        if wanted is _MISSING:
            common -= 1
            operations.append({"op": "remove", "path": f"{path}/{escape(name)}"})
        else:
            _compare(present, wanted, f"{path}/{escape(name)}", operations)
    if len(after) > common:
        operations += [
            {"op": "add", "path": f"{path}/{escape(name)}", "value": wanted}
            for name, wanted in after.items()
            if name not in before
        ]


def _compare_lists(before: list[JSON], after: list[JSON], path: str, operations: list[JSONObject]) -> None:
    start = 0
    shorter = min(len(before), len(after))
    # Identity is asked first and here: most elements are shared, and a call costs more than the question.
    while start < shorter and (before[start] is after[start] or identical(before[start], after[start])):
        start += 1
    end = 0
    while end < shorter - start and (
        before[-1 - end] is after[-1 - end] or identical(before[-1 - end], after[-1 - end])
    ):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    position = start
    for removed, added in _gaps(old, new):
        common = min(len(removed), len(added))
        for offset in range(common):
            _compare(removed[offset], added[offset], f"{path}/{position + offset}", operations)
        position += common
        operations += [{"op": "remove", "path": f"{path}/{position}"} for _ in range(len(removed) - common)]
        more = added[common:]
        operations += [
            {"op": "add", "path": f"{path}/{position + offset}", "value": element}
            for offset, element in enumerate(more)
        ]
        position += len(more) + 1  # the common element behind the gap


def _gaps(old: list[JSON], new: list[JSON]) -> list[tuple[list[JSON], list[JSON]]]:
    """Return what lies between the elements that both lists have in the same order, one pair of runs per gap."""
    if not old or not new or len(old) == len(new) or len(old) * len(new) > _MOST_PAIRS:
        return [(old, new)] if old or new else []
    gaps: list[tuple[list[JSON], list[JSON]]] = []
    old_at = new_at = 0
    for old_index, new_index in _common_subsequence(old, new):
        gaps.append((old[old_at:old_index], new[new_at:new_index]))
        old_at, new_at = old_index + 1, new_index + 1
    gaps.append((old[old_at:], new[new_at:]))
    return gaps


def _common_subsequence(old: list[JSON], new: list[JSON]) -> list[tuple[int, int]]:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    same = [[identical(left, right) for right in new] for left in old]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same[i][j] else max(lengths[i + 1][j], lengths[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if same[i][j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
