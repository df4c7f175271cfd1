"""Compares JSON values, and computes the JSON Patch that turns one document into another."""

from typing import Final

from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.patch.pointer_and_limits import escape


def identical(left: JSON, right: JSON) -> bool:
    """Return whether both values have the same JSON text: ``1``, ``1.0`` and ``true`` all differ."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and _same_members(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    return bool(left == right)


def _same_members(left: JSONObject, right: JSONObject) -> bool:
    # This is the inner loop of every diff, and the generator of all() costs more than the comparison.
    for name, value in left.items():  # noqa: SIM110
        if not identical(value, right.get(name, ABSENT)):
            return False
    return True


def equal(left: JSON, right: JSON) -> bool:
    """Return whether both values are equal by RFC 6902 section 4.6: numbers by value, and true is not a number."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            name in right and equal(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


# The alignment compares every element with every other one. Longer lists are compared index by index instead.
_MAX_PAIRS: Final = 4096
# An unchanged element needs no operation, so it counts more than two changed elements that kept their names.
_SAME_SCORE: Final = 3
_SAME_NAME_SCORE: Final = 1


def align(old: list[JSON], new: list[JSON]) -> list[tuple[int, int]]:
    """Return the index pairs of elements that are identical or share a name, in list order."""
    if len(old) * len(new) > _MAX_PAIRS:
        return [(position, position) for position in range(min(len(old), len(new)))]
    scores = [[_score_pair(left, right) for right in new] for left in old]
    best = _compute_best_scores(scores, len(new))
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        score = scores[i][j]
        if score and best[i][j] == best[i + 1][j + 1] + score:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _score_pair(left: JSON, right: JSON) -> int:
    if left is right or identical(left, right):
        return _SAME_SCORE
    if isinstance(left, dict) and isinstance(right, dict) and "name" in left and left["name"] == right.get("name"):
        return _SAME_NAME_SCORE
    return 0


def _compute_best_scores(scores: list[list[int]], width: int) -> list[list[int]]:
    best = [[0] * (width + 1) for _ in range(len(scores) + 1)]
    for i in range(len(scores) - 1, -1, -1):
        row, below, row_scores = best[i], best[i + 1], scores[i]
        for j in range(width - 1, -1, -1):
            paired = below[j + 1] + row_scores[j] if row_scores[j] else 0
            row[j] = max(paired, below[j], row[j + 1])
    return best


# Fewer operations than this are about as short as one replace of their container.
_MIN_OPERATIONS_TO_SHORTEN: Final = 3
_REPLACE_OVERHEAD: Final = len('{"op":"replace","path":"","value":},')

# A container with more operations than this is replaced. A list of a million elements whose first element moves to the
# end differs at every index.
_MAX_OPERATIONS: Final = 1_000


def diff(before: JSON, after: JSON) -> list[JSONObject]:
    """Return a small RFC 6902 patch that turns ``before`` into ``after``, including the type of each number.

    Branches that are the same Python object in both documents are skipped, so comparing a copy-on-write copy takes time
    for its changes only. The patch has the same result in the kubernetes dialect.
    """
    operations: list[JSONObject] = []
    if before is not after:
        _compare(before, after, "", operations)
    return operations


def _compare(before: JSON, after: JSON, path: str, operations: list[JSONObject]) -> None:
    start = len(operations)
    if type(before) is dict and type(after) is dict:
        _compare_objects(before, after, path, operations)
    elif type(before) is list and type(after) is list:
        _compare_lists(before, after, path, operations)
    elif type(before) is not type(after) or before != after:
        operations.append({"op": "replace", "path": path, "value": after})
    # Only a container with several changed members of its own can become shorter. The document itself is never
    # replaced: readers of a patch want to see the changes.
    if path and len(operations) - start >= _MIN_OPERATIONS_TO_SHORTEN:
        own, length = 0, len(path)
        for made in operations[start:]:
            own += made["path"].rfind("/") == length
        if own >= _MIN_OPERATIONS_TO_SHORTEN:
            _shorten(after, path, operations, start)
    if path and len(operations) - start > _MAX_OPERATIONS:
        operations[start:] = [{"op": "replace", "path": path, "value": after}]


def _shorten(after: JSON, path: str, operations: list[JSONObject], start: int) -> None:
    """Replace the operations from ``start`` on by one ``replace`` if that is less than half as long."""
    limit = (
        sum(_REPLACE_OVERHEAD + len(made["path"]) + text_size(made.get("value")) for made in operations[start:]) // 2
    )
    if _REPLACE_OVERHEAD + len(path) + text_size(after, limit) < limit:
        operations[start:] = [{"op": "replace", "path": path, "value": after}]


def text_size(value: JSON, limit: int = 1 << 30) -> int:
    """Return the approximate length of ``value`` as JSON text; stop counting soon after ``limit``."""
    if isinstance(value, str):
        return len(value) + 2
    if not isinstance(value, dict | list):
        return 4
    size = 2
    for inner in value if isinstance(value, list) else value.values():
        size += text_size(inner, limit - size) + 1
        if size > limit:
            return size
    return size + sum(len(name) + 3 for name in value) if isinstance(value, dict) else size


def _compare_objects(before: JSONObject, after: JSONObject, path: str, operations: list[JSONObject]) -> None:
    if path and before and after and next(iter(before)) not in after and before.keys().isdisjoint(after):
        # Without a common member, one replace is shorter than removing and adding every member.
        operations.append({"op": "replace", "path": path, "value": after})
        return
    common = len(before)
    max_operations = len(operations) + _MAX_OPERATIONS
    for name, present in before.items():
        wanted = after.get(name, ABSENT)
        if wanted is present:
            continue
        if wanted is ABSENT:
            common -= 1
            operations.append({"op": "remove", "path": f"{path}/{escape(name)}"})
        else:
            _compare(present, wanted, f"{path}/{escape(name)}", operations)
        if path and len(operations) > max_operations:
            return  # The caller replaces them by one operation.
    if len(after) > common:
        operations += [
            {"op": "add", "path": f"{path}/{escape(name)}", "value": wanted}
            for name, wanted in after.items()
            if name not in before
        ]


def _compare_lists(before: list[JSON], after: list[JSON], path: str, operations: list[JSONObject]) -> None:
    start = 0
    shorter = min(len(before), len(after))
    # Compare identity before calling `identical`: most elements are shared, and a call costs more than `is`.
    while start < shorter and (before[start] is after[start] or identical(before[start], after[start])):
        start += 1
    end = 0
    while end < shorter - start and (
        before[-1 - end] is after[-1 - end] or identical(before[-1 - end], after[-1 - end])
    ):
        end += 1
    if shorter == len(after) == len(before) and start + end + 1 == shorter:
        # In the usual case a single element changed, and there is nothing to align.
        _compare(before[start], after[start], f"{path}/{start}", operations)
        return
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    _compare_middle(old, new, path=path, position=start, operations=operations)


def _compare_middle(
    old: list[JSON], new: list[JSON], *, path: str, position: int, operations: list[JSONObject]
) -> None:
    """Compare two lists without their common start and end; ``position`` is the index of their first element."""
    pairs = align(old, new) if old and new else []
    old_at = new_at = 0
    max_operations = len(operations) + _MAX_OPERATIONS
    for old_index, new_index in (*pairs, (len(old), len(new))):
        removed, added = old[old_at:old_index], new[new_at:new_index]
        common = min(len(removed), len(added))
        for offset in range(common):
            _compare(removed[offset], added[offset], f"{path}/{position + offset}", operations)
            if path and len(operations) > max_operations:
                return  # The caller replaces them by one operation.
        position += common
        operations += [{"op": "remove", "path": f"{path}/{position}"} for _ in range(len(removed) - common)]
        operations += [
            {"op": "add", "path": f"{path}/{position + offset}", "value": element}
            for offset, element in enumerate(added[common:])
        ]
        position += len(added) - common
        if old_index < len(old):
            _compare(old[old_index], new[new_index], f"{path}/{position}", operations)
            position += 1
        old_at, new_at = old_index + 1, new_index + 1
