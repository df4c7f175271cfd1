"""A Deployment or StatefulSet in the hands of a Go program: printed as JSON, and read into a struct that has values.

OpenYurt's controller patches a workload by printing the struct, patching the text, and reading the result into the
same struct (workloadmanager/tweaks.go, v1.5 to v1.7). Go's ``encoding/json`` sets the members that the text has and
leaves the others, so a member that the patch removed survives, and elements of a list inherit from their predecessors.

Here a struct is a JSON object in which an absent member has its zero value.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from app.model.json import JSON, JSONObject
from app.overrider.workload_schema.fields import Field, Kind, load_structs, root_name

_SCALARS: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "bool": (bool,), "int32": (int,), "int64": (int,)}
_ZEROS: Final[dict[str, JSON]] = {"string": "", "bool": False, "int32": 0, "int64": 0, "Time": None, "IntOrString": 0}
_MAPS: Final = {"ResourceList": "Quantity"}


class DecodeError(ValueError):
    """A value has another type than its member; the text names both."""


def print_workload(workload: JSONObject, kind: Kind) -> JSONObject:
    """Return what Go prints of a workload: with the empty members that ``omitempty`` does not leave out.

    A patch may address those: ``/spec/strategy`` and each container's ``/resources`` are always there.

    Args:
        workload: The workload as it is stored (`normalize_workload`).
        kind: Its kind.
    """
    printed: JSONObject = _printed(workload, root_name(kind))
    return printed


def decode_into(workload: JSONObject, text: JSON, kind: Kind) -> JSONObject:
    """Return ``workload`` after Go has read ``text`` into it; empty members that only the print had are left out.

    Args:
        workload: The struct's present values, as they are stored (`normalize_workload`).
        text: A patched form of what `print_workload` returns.
        kind: Its kind.

    Raises:
        DecodeError: A member has a value of a wrong type.
    """
    decoded = _decoder(root_name(kind))(workload, text, "")
    kept: JSONObject = _without_printed(decoded, workload, root_name(kind))
    return kept


def _printed(value: JSON, type_: str) -> JSON:
    if type_.startswith("*"):
        return value if value is None else _printed(value, type_[1:])
    if type_.startswith("[]"):
        return [_printed(element, type_[2:]) for element in value] if isinstance(value, list) else value
    structs = load_structs()
    if type_ not in structs or not isinstance(value, dict):
        return value
    members = structs[type_]
    known = {name: _printed(inner, members[name].type) for name, inner in value.items() if name in members}
    empty = {name: _empty(field) for name, field in members.items() if name not in known and _is_printed(field)}
    return {**known, **empty}


def _is_printed(field: Field) -> bool:
    """Return whether Go prints a member that is empty: ``omitempty`` leaves out no struct."""
    is_struct = field.type in load_structs() or field.type == "Time"
    return is_struct or field.omit == ""


def _empty(field: Field) -> JSON:
    return _printed({}, field.type) if field.type in load_structs() else _ZEROS.get(field.type)


def _without_printed(value: JSON, former: JSON, type_: str) -> JSON:
    """Return ``value`` without the empty members that Go prints and that ``former`` did not have."""
    type_ = type_.removeprefix("*")
    if type_.startswith("[]") and isinstance(value, list):
        known = former if isinstance(former, list) else []
        padded = [*known, *([None] * (len(value) - len(known)))]
        return [_without_printed(one, padded[number], type_[2:]) for number, one in enumerate(value)]
    if type_ not in load_structs() or not isinstance(value, dict):
        return value
    members, before = load_structs()[type_], former if isinstance(former, dict) else {}
    kept = {name: _without_printed(inner, before.get(name), members[name].type) for name, inner in value.items()}
    return {
        name: inner
        for name, inner in kept.items()
        if name in before or inner not in _EMPTY or not _is_printed(members[name])
    }


_EMPTY: Final[tuple[JSON, ...]] = (None, {}, "", 0)


_Decode = Callable[[JSON, JSON, str], JSON]
"""Returns a value after a text was read into it, given both and the path for messages."""


@cache
def _decoder(type_: str) -> _Decode:
    if type_.startswith("*"):
        return _pointer(type_[1:])
    if type_.startswith("[]"):
        return _slice(type_[2:])
    if type_.startswith("map[string]") or type_ in _MAPS:
        return _map(_MAPS.get(type_) or type_.removeprefix("map[string]"))
    if type_ in load_structs():
        return _struct(type_)
    return _scalar(type_) if type_ in _SCALARS else _replace


def _replace(_value: JSON, text: JSON, _path: str) -> JSON:
    """Read a type that decodes itself, such as a quantity: nothing of the former value stays."""
    return text


def _scalar(type_: str) -> _Decode:
    expected = _SCALARS[type_]

    def decode(value: JSON, text: JSON, path: str) -> JSON:
        if text is None:
            return value  # For Go, null says nothing about a value that is no pointer.
        if not isinstance(text, expected) or (isinstance(text, bool) and bool not in expected):
            raise DecodeError(f"{path} must be of type {type_}")
        return text

    return decode


def _pointer(inner: str) -> _Decode:
    def decode(value: JSON, text: JSON, path: str) -> JSON:
        return None if text is None else _decoder(inner)(value, text, path)

    return decode


def _slice(inner: str) -> _Decode:
    def decode(value: JSON, text: JSON, path: str) -> JSON:
        if text is None:
            return None
        if not isinstance(text, list):
            raise DecodeError(f"{path} must be a list")
        former, element = value if isinstance(value, list) else [], _decoder(inner)
        padded = [*former, *([_zero(inner)] * (len(text) - len(former)))]
        return [element(padded[number], one, f"{path}/{number}") for number, one in enumerate(text)]

    return decode


def _zero(type_: str) -> JSON:
    return _ZEROS.get(type_, {} if type_ in load_structs() else None)


def _map(inner: str) -> _Decode:
    def decode(value: JSON, text: JSON, path: str) -> JSON:
        if text is None:
            return None
        if not isinstance(text, dict):
            raise DecodeError(f"{path} must be an object")
        element = _decoder(inner)
        # Go reads each value into a fresh one, and keeps the keys that the text does not have.
        read = {key: element(_zero(inner), one, f"{path}/{key}") for key, one in text.items()}
        return {**(value or {}), **read}

    return decode


def _struct(name: str) -> _Decode:
    members = load_structs()[name]
    folded = {member.casefold(): member for member in members}

    def decode(value: JSON, text: JSON, path: str) -> JSON:
        if text is None:
            return value
        if not isinstance(text, dict):
            raise DecodeError(f"{path or 'the workload'} must be an object")
        made: JSONObject = dict(value or {})
        for given, inner in text.items():
            # Go reads a name in any case, and skips those that it does not know.
            member = given if given in members else folded.get(given.casefold())
            if member is None:
                continue
            read = _decoder(members[member].type)(made.get(member), inner, f"{path}/{member}")
            if read is None:
                made.pop(member, None)
            else:
                made[member] = read
        return made

    return decode
