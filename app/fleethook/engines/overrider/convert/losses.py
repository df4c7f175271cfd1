"""Finds differences between the workload with tweaks and the rendered one, and operations that unset kept members.

OpenYurt's controller decodes a patched workload into the struct that it encoded, so members that a patch removed stay
(`fleethook.engines.overrider.schema.go_structs`). An explicit null or zero value in the patch unsets most of them, but
not the keys of maps, such as labels and node selectors. A patch cannot address a member with a zero value that Go
omitted, so conversions use documents without zero values.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.convert.operations import Operation
from fleethook.engines.overrider.schema.go_structs import ZEROS, Kind, load_structs, root_name
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import apply, format_pointer, identical, parse_pointer, resolve_pointer


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
    type_ = _find_type(loss.tokens, root_name(kind))
    if loss.wanted is not MISSING or type_ is None:
        return None
    zero = _find_zero(type_, loss.got)
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


def _find_type(tokens: tuple[str, ...], type_: str) -> str | None:
    """Return the Go type of a member of a struct; None for keys of maps, list elements and unknown members."""
    in_list = False
    for token in tokens:
        type_ = type_.removeprefix("*")
        in_list = type_.startswith("[]")
        if in_list:
            type_ = type_[2:]
        elif (struct := load_structs().get(type_)) is not None and token in struct:
            type_ = struct[token].type
        else:
            return None
    return None if in_list else type_


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
