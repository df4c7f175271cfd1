"""Finds the JSON Patch operations between two states of a workload that tweaks support: add, remove and replace.

The name of a node pool is a mark while pools are compared. In tweaks, it is OpenYurt's token.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.patch_paths import PathError, find_target, missing_parent, pointer_of
from fleethook.engines.overrider.entries.value_marks import POOL_MARK
from fleethook.engines.overrider.render.overlay import value_of
from fleethook.model.formats.names import label_value_problem
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import TWEAK_POOL_TOKEN
from fleethook.patch import PatchError, apply, diff, format_pointer, identical, parse_pointer, resolve_pointer

Operation = JSONObject
"""``op``, ``path`` and, except in remove, ``value``."""


class WrittenPatch(NamedTuple):
    """A patch of an overrider, with the name of the node pool filled in."""

    operation: str
    path: str
    value: JSON


def find_operations(before: JSONObject, after: JSONObject, written: WrittenPatch | None) -> list[Operation]:
    """Return the operations that change ``before`` into ``after``.

    Args:
        before: A workload.
        after: The same workload after a step of an overrider.
        written: The patch of the step, None for other steps. It is kept if it has the same effect with plain paths.
    """
    kept = None if written is None else _keep_written(before, written)
    if kept is not None and applies(before, kept, after):
        return kept
    return _append_at_ends(before, diff(before, after))


def applies(before: JSONObject, operations: Sequence[Operation], after: JSONObject) -> bool:
    """Return whether operations change ``before`` into ``after``."""
    try:
        return identical(apply(before, operations), after)
    except PatchError:
        return False


def _keep_written(before: JSONObject, written: WrittenPatch) -> list[Operation] | None:
    operation, path, value = written
    made: list[Operation] = []
    try:
        if operation == "add" and (parent := missing_parent(before, path)) is not None:
            made.append(parent)
            before = apply(before, [parent])
        target = find_target(before, path, add=operation == "add")
    except (PathError, ValueError):
        return None
    if target.filled and operation == "add":
        return None
    changed = {"op": operation, "path": pointer_of(target)}
    return [*made, changed if operation == "remove" else {**changed, "value": value}]


def _append_at_ends(before: JSON, operations: Iterable[Operation]) -> list[Operation]:
    """Replace the index after the last element by ``-``, so that tweaks do not depend on the additions of others."""
    made: list[Operation] = []
    for operation in operations:
        parent, last = parse_pointer(operation["path"])[:-1], parse_pointer(operation["path"])[-1:]
        elements = resolve_pointer(before, format_pointer(parent)) if last else None
        at_end = operation["op"] == "add" and isinstance(elements, list) and last == (str(len(elements)),)
        made.append({**operation, "path": format_pointer((*parent, "-"))} if at_end else operation)
        before = apply(before, [operation])
    return made


_OWN_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "template", "spec", "nodeSelector"))


def own_maps(base: JSONObject, template: JSONObject) -> dict[tuple[str, ...], JSONObject]:
    """Return the maps that OpenYurt's controller adds to a workload and that the template lacks, by their paths.

    OpenYurt's webhook applies each tweak to the spec of the template, and refuses tweaks that set a key in such a map.

    Args:
        base: The workload without tweaks.
        template: The document to which the webhook applies a tweak.
    """
    return {tokens: dict(value_of(base, tokens)) for tokens in _OWN_MAPS if not _has(template, tokens)}


def _has(document: JSON, tokens: Sequence[str]) -> bool:
    for token in tokens:
        document = document.get(token) if isinstance(document, dict) else None
    return bool(document)


def with_own_maps(operations: Sequence[Operation], maps: Mapping[tuple[str, ...], JSONObject]) -> list[Operation]:
    """Return the operations of a node pool, and add each map before the first operation that sets a key in it."""
    made: list[Operation] = []
    known: set[tuple[str, ...]] = set()
    for operation in operations:
        tokens = parse_pointer(operation["path"])
        parent = next((path for path in maps if tokens[: len(path)] == path), None)
        if parent is not None and parent not in known:
            known.add(parent)
            if len(tokens) > len(parent):
                made.append({"op": "add", "path": format_pointer(parent), "value": maps[parent]})
        made.append(operation)
    return made


def as_patch(operation: Operation) -> JSONObject:
    """Return an operation in the form of ``workloadTweaks[].tweaks.patches[]``."""
    made = {"operation": operation["op"], "path": operation["path"]}
    return {**made, "value": operation["value"]} if "value" in operation else made


# OpenYurt's webhook tries each tweak with an empty pool name, which is invalid in these members.
_NAMES: Final = ("name", "key")
_LABELS: Final = frozenset({"labels", "nodeSelector", "matchLabels"})


def replace_text(value: JSON, text: str, by: str) -> JSON:
    """Replace ``text`` in all texts and keys of a JSON value."""
    if isinstance(value, str):
        return value.replace(text, by)
    if isinstance(value, dict):
        return {replace_text(name, text, by): replace_text(inner, text, by) for name, inner in value.items()}
    return [replace_text(inner, text, by) for inner in value] if isinstance(value, list) else value


def fill_pool(operations: Sequence[JSONObject], pool: str) -> list[JSONObject]:
    """Replace the mark in operations by the name of a node pool."""
    return [replace_text(operation, POOL_MARK, pool) for operation in operations]


def with_tokens(operation: JSONObject, pool: str) -> JSONObject:
    """Replace the mark in an operation: in its value by OpenYurt's token, elsewhere by the pool's name.

    OpenYurt replaces its token only in values. A value that would be invalid with an empty name gets the pool's name.
    """
    path = operation["path"].replace(POOL_MARK, pool)
    if "value" not in operation:
        return {**operation, "path": path}
    literal = any(
        _is_invalid(place, text) for place, text in _find_marked_texts(operation["value"], tuple(path.split("/")))
    )
    shown = pool if literal else TWEAK_POOL_TOKEN
    return {**operation, "path": path, "value": replace_text(operation["value"], POOL_MARK, shown)}


def _is_invalid(place: Sequence[str], text: str) -> bool:
    """Return whether kube-apiserver refuses a text or a key if the name of the pool in it is empty."""
    *parents, last = place
    if POOL_MARK in last or last in _NAMES or last.endswith("Name"):
        return True
    return bool(_LABELS & set(parents[-1:])) and label_value_problem(text.replace(POOL_MARK, "")) is not None


def _find_marked_texts(value: JSON, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the text of each value or key with the mark; the path of a key ends with the key."""
    if isinstance(value, str) and POOL_MARK in value:
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if POOL_MARK in name:
                yield (*place, name), name
            yield from _find_marked_texts(inner, (*place, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _find_marked_texts(inner, place)
