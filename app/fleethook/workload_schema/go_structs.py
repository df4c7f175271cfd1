"""The Go structs behind Deployment and StatefulSet (k8s.io/api), and how Go encodes and decodes them.

OpenYurt's controller encodes a struct, patches the text, and decodes the result into the same struct
(workloadmanager/tweaks.go, v1.5 to v1.7). Go's ``encoding/json`` sets only the members that the text has. So a member
that the patch removed stays, and elements of a list inherit members from their predecessors.

This module represents a struct as a JSON object. An absent member has its zero value. ``fields.json`` has the fields.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from fleethook.model.json import JSON, JSONObject, as_list

Kind = Literal["Deployment", "StatefulSet"]

_FILE: Final = "fields.json"


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One member of a struct."""

    type: str
    """A Go type expression such as ``*int32``, ``[]core.v1.Container`` or ``map[string]string``.

    Structs have their OpenAPI name. Named strings and integers have the name of their kind. ``Quantity``,
    ``ResourceList``, ``IntOrString``, ``Time`` and ``Raw`` have their own encoders.
    """
    omit: Literal["", "empty", "zero"] = ""
    """The ``omitempty`` or ``omitzero`` of the JSON tag."""
    keys: Mapping[str, str | None] | None = None
    """The members that identify an element of this list to server-side apply, with their defaults.

    Source: ``x-kubernetes-list-map-keys``. None for atomic lists, for sets and for other types.
    """


Struct = Mapping[str, Field]
"""The members of a struct by their JSON names, embedded structs flattened."""


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_structs: Final = msgspec.json.Decoder(dict[str, dict[str, Field]]).decode


@cache
def load_structs() -> Mapping[str, Struct]:
    """Return all structs by their names, such as ``core.v1.Container``."""
    text = Path(__file__).with_name(_FILE).read_bytes()
    return _decode_structs(text)


def root_name(kind: Kind) -> str:
    """Return the name of the struct of a kind."""
    return f"apps.v1.{kind}"


def find_field(tokens: Iterable[str], type_: str) -> Field | None:
    """Return the member at a path of a type; None for keys of maps, elements of lists and unknown members."""
    field: Field | None = None
    for token in tokens:
        type_ = type_.removeprefix("*")
        if type_.startswith("[]"):
            field, type_ = None, type_[2:]
            continue
        field = load_structs().get(type_, {}).get(token)
        if field is None:
            return None
        type_ = field.type
    return field


def struct_name(type_: str) -> str | None:
    """Return the struct that a type expression refers to, or that its elements have; None if there is none."""
    name = type_.removeprefix("map[string]").lstrip("*[]")
    return name if "." in name else None


_SCALARS: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "bool": (bool,), "int32": (int,), "int64": (int,)}
ZEROS: Final[Mapping[str, JSON]] = {"string": "", "bool": False, "int32": 0, "int64": 0}
"""The zero values of scalar types."""
_ALL_ZEROS: Final[Mapping[str, JSON]] = {**ZEROS, "Time": None, "IntOrString": 0}
_MAPS: Final = {"ResourceList": "Quantity"}


class DecodeError(ValueError):
    """A value has the wrong type; the text names the member and its type."""


def print_workload(workload: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload as Go encodes it: with the empty members that ``omitempty`` does not omit.

    A patch may address these members: ``/spec/strategy`` and each container's ``/resources`` always exist.

    Args:
        workload: A stored workload (`normalize_workload`).
        kind: Its kind.
    """
    printed: JSONObject = _print_value(workload, root_name(kind))
    return printed


def decode_into(workload: JSONObject, text: JSON, kind: Kind) -> JSONObject:
    """Return ``workload`` after Go has decoded ``text`` into it, without empty members that only the encoding had.

    Args:
        workload: The values of the struct: a stored workload (`normalize_workload`).
        text: A patched result of `print_workload`.
        kind: Its kind.

    Raises:
        DecodeError: A member has a value of a wrong type.
    """
    decoded = _decode(root_name(kind), workload, text, "")
    kept: JSONObject = _remove_encoded(decoded, workload, root_name(kind))
    return kept


def _print_value(value: JSON, type_: str) -> JSON:
    if type_.startswith("*"):
        return value if value is None else _print_value(value, type_[1:])
    if type_.startswith("[]"):
        return [_print_value(element, type_[2:]) for element in value] if isinstance(value, list) else value
    structs = load_structs()
    if type_ not in structs or not isinstance(value, dict):
        return value
    members = structs[type_]
    known = {name: _print_value(inner, members[name].type) for name, inner in value.items() if name in members}
    empty = {name: _make_empty(field) for name, field in members.items() if name not in known and _is_printed(field)}
    return {**known, **empty}


def _is_printed(field: Field) -> bool:
    """Return whether Go encodes a member that is empty: ``omitempty`` omits no struct."""
    is_struct = field.type in load_structs() or field.type == "Time"
    return is_struct or field.omit == ""


def _make_empty(field: Field) -> JSON:
    return _print_value({}, field.type) if field.type in load_structs() else _ALL_ZEROS.get(field.type)


def _remove_encoded(value: JSON, former: JSON, type_: str) -> JSON:
    """Return ``value`` without the empty members that Go encodes and that ``former`` did not have."""
    type_ = type_.removeprefix("*")
    if type_.startswith("[]") and isinstance(value, list):
        known = as_list(former)
        padded = [*known, *([None] * (len(value) - len(known)))]
        return [_remove_encoded(one, padded[number], type_[2:]) for number, one in enumerate(value)]
    if type_ not in load_structs() or not isinstance(value, dict):
        return value
    members, before = load_structs()[type_], former if isinstance(former, dict) else {}
    kept = {name: _remove_encoded(inner, before.get(name), members[name].type) for name, inner in value.items()}
    return {
        name: inner
        for name, inner in kept.items()
        if name in before or inner not in _EMPTY or not _is_printed(members[name])
    }


_EMPTY: Final[tuple[JSON, ...]] = (None, {}, "", 0)


def _decode(type_: str, value: JSON, text: JSON, path: str) -> JSON:
    """Return a value after a text was decoded into it; the path is for messages."""
    structs = load_structs()
    if text is None:
        # Go's decoder ignores null unless the member is a pointer, a slice or a map, or has a decoder of its own.
        return value if type_ in _SCALARS or type_ in structs else None
    if type_.startswith("*"):
        return _decode(type_[1:], value, text, path)
    if type_.startswith("[]"):
        return _decode_list(type_[2:], value, text, path)
    if type_.startswith("map[string]") or type_ in _MAPS:
        return _decode_map(_MAPS.get(type_) or type_.removeprefix("map[string]"), value, text, path)
    if type_ in structs:
        return _decode_struct(type_, value, text, path)
    expected = _SCALARS.get(type_, (object,))
    if not isinstance(text, expected) or (isinstance(text, bool) and int in expected):
        raise DecodeError(f"{path} must be of type {type_}")
    return text


def _decode_list(element: str, value: JSON, text: JSON, path: str) -> JSON:
    if not isinstance(text, list):
        raise DecodeError(f"{path} must be a list")
    former = as_list(value)
    padded = [*former, *([_zero(element)] * (len(text) - len(former)))]
    return [_decode(element, padded[number], one, f"{path}/{number}") for number, one in enumerate(text)]


def _decode_map(element: str, value: JSON, text: JSON, path: str) -> JSON:
    if not isinstance(text, dict):
        raise DecodeError(f"{path} must be an object")
    # Go decodes each value into a new one, and keeps the keys that the text does not have.
    read = {key: _decode(element, _zero(element), one, f"{path}/{key}") for key, one in text.items()}
    return {**(value or {}), **read}


def _zero(type_: str) -> JSON:
    return _ALL_ZEROS.get(type_, {} if type_ in load_structs() else None)


def _decode_struct(name: str, value: JSON, text: JSON, path: str) -> JSON:
    if not isinstance(text, dict):
        raise DecodeError(f"{path or 'the workload'} must be an object")
    members, made = load_structs()[name], dict(value or {})
    for given, inner in text.items():
        # Go matches names in any case, and ignores unknown ones.
        member = given if given in members else _fold_names(name).get(given.casefold())
        if member is None:
            continue
        read = _decode(members[member].type, made.get(member), inner, f"{path}/{member}")
        if read is None:
            made.pop(member, None)
        else:
            made[member] = read
    return made


@cache
def _fold_names(struct: str) -> Mapping[str, str]:
    return {member.casefold(): member for member in load_structs()[struct]}
