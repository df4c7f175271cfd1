"""Finds the JSON Patch operations between two states of a workload, and the differences that tweaks cannot express.

Tweaks support add, remove and replace. The name of a node pool is a mark while pools are compared. In tweaks, it is
OpenYurt's token.

OpenYurt's controller decodes a patched workload into the struct that it encoded, so members that a patch removed stay
(`fleethook.workload_schema.go_structs`). An explicit null or zero value in the patch unsets most of them, but
not the keys of maps, such as labels and node selectors. A patch cannot address a member with a zero value that Go
omitted, so conversions use documents without zero values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.patch_paths import PathError, find_target, missing_parent, pointer_of
from fleethook.engines.overrider.render.overlay import value_of
from fleethook.model.formats.labels import label_value_problem
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import TWEAK_POOL_TOKEN
from fleethook.patch import PatchError, apply, diff, format_pointer, identical, parse_pointer, resolve_pointer
from fleethook.workload_schema.go_structs import ZEROS, Kind, find_field, load_structs, root_name
from fleethook.workload_schema.value_marks import POOL_MARK

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


def without_zeros(workload: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload without empty structs, lists and maps, and without zero values of scalars.

    ``strategy: {}`` and each container's ``resources: {}`` have the same meaning as their absence. Pointers have no
    zero value: ``emptyDir: {}`` and ``replicas: 0`` are kept.

    Args:
        workload: A workload, or the template of one.
        kind: Its kind.
    """
    kept: JSONObject = _remove_zeros(workload, root_name(kind))
    return kept


def _remove_zeros(value: JSON, type_: str) -> JSON:
    type_ = type_.removeprefix("*")
    if type_.startswith("[]") and isinstance(value, list):
        return [_remove_zeros(element, type_[2:]) for element in value]
    struct = load_structs().get(type_)
    if struct is None or not isinstance(value, dict):
        return value
    types = {name: struct[name].type if name in struct else "" for name in value}
    made = {name: _remove_zeros(inner, types[name]) for name, inner in value.items()}
    return {name: inner for name, inner in made.items() if not _is_zero(inner, types[name])}


def _is_zero(value: JSON, type_: str) -> bool:
    if type_ in ZEROS:
        return bool(identical(value, ZEROS[type_]))
    if type_.startswith("[]"):
        return bool(value == [])
    return bool(value == {}) and (type_ in load_structs() or type_.startswith("map[") or type_ == "ResourceList")


class _Missing:
    """The value of an absent member."""


MISSING: Final = _Missing()
_NULLABLE: Final = ("*", "[]", "map[", "ResourceList")


class Loss(NamedTuple):
    """One difference."""

    tokens: tuple[str, ...]
    """The path, with the indexes of list elements."""
    wanted: JSON
    """The value before the conversion, MISSING if there was none."""
    got: JSON
    """The value after it, MISSING if there is none."""

    @property
    def path(self) -> str:
        """The JSON pointer."""
        return format_pointer(self.tokens)


def find_losses(wanted: JSONObject, got: JSONObject, kind: Kind) -> Iterator[Loss]:
    """Yield the differences between the stored forms of two workloads."""
    return _find_losses(without_zeros(wanted, kind), without_zeros(got, kind), ())


def _find_losses(wanted: JSON, got: JSON, tokens: tuple[str, ...]) -> Iterator[Loss]:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for name in (*wanted, *(name for name in got if name not in wanted)):
            yield from _find_losses(wanted.get(name, MISSING), got.get(name, MISSING), (*tokens, name))
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for number, (left, right) in enumerate(zip(wanted, got, strict=True)):
            yield from _find_losses(left, right, (*tokens, str(number)))
    elif not identical(wanted, got):
        yield Loss(tokens, wanted, got)


def unset_operation(loss: Loss, kind: Kind) -> Operation | None:
    """Return the operation that unsets a kept member, None if there is none."""
    field = find_field(loss.tokens, root_name(kind))
    if loss.wanted is not MISSING or field is None:
        return None
    zero = _find_zero(field.type, loss.got)
    return None if zero is MISSING else {"op": "add", "path": loss.path, "value": zero}


def unset_removals(before: JSONObject, operations: Sequence[Operation], kind: Kind) -> list[Operation]:
    """Return operations that set members to null or a zero value instead of removing them.

    In OpenYurt, removing a member has no effect, and fails if the template alone lacks the member. The keys of maps and
    the elements of lists are still removed.
    """
    made: list[Operation] = []
    for operation in operations:
        unset = None
        if operation["op"] == "remove":
            present = resolve_pointer(before, operation["path"])
            unset = unset_operation(Loss(parse_pointer(operation["path"]), MISSING, present), kind)
        made.append(unset or operation)
        before = apply(before, [operation])
    return made


def _find_zero(type_: str, got: JSON) -> JSON:
    if type_.startswith(_NULLABLE):
        return None
    struct = load_structs().get(type_)
    if struct is None or not isinstance(got, dict):
        return ZEROS.get(type_, MISSING)
    zeros: JSONObject = {
        name: _find_zero(struct[name].type, inner) if name in struct else MISSING for name, inner in got.items()
    }
    return MISSING if any(zero is MISSING for zero in zeros.values()) else zeros
