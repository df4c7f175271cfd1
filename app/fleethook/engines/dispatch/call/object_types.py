"""Checks that a patched object still fits the types of the API: its kind, its metadata, and members of built-in kinds.

kube-apiserver decodes the object after each patch (k8s.io/apiserver v0.36
pkg/admission/plugin/webhook/mutating/dispatcher.go). The texts are those of Go's ``encoding/json``.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, decode_bytes

Types = Mapping[str, Mapping[str, str]]
"""Go structs by names such as ``apps/v1.DeploymentSpec``, with the types of their members, such as ``[]v1.Container``.

A name that is not that of a struct, such as ``v1.Protocol``, is a string.
"""

# RFC 3339 with a colon in the zone, as Go's time.Parse reads it.
_SECOND, _ZONE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", r"(?:Z|[+-]\d\d:\d\d)"
_TIMES: Final = {
    "Time": (re.compile(rf"{_SECOND}(?:[.,]\d+)?{_ZONE}", re.ASCII), "2006-01-02T15:04:05Z07:00"),
    "MicroTime": (re.compile(rf"{_SECOND}[.,]\d{{6}}{_ZONE}", re.ASCII), "2006-01-02T15:04:05.000000Z07:00"),
}
_QUANTITY: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_STRING, _BOOL, _MAP, _BYTES = "string", "bool", "map[string]", "[]uint8"
_METADATA: Final = "meta/v1.ObjectMeta"
_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_INTEGERS: Final = {
    **{name: range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for name, bits in (("int32", 32), ("int64", 64))},
    "uint8": range(256),
}


def explain_wrong_kind(document: JSONObject, kind: GroupVersionKind, *, is_builtin: bool) -> str:
    """Return why an apiserver cannot decode an object as a kind, ``""`` if it can.

    Args:
        document: The object.
        kind: Its kind before the patch.
        is_builtin: Whether the apiserver has a Go type for the kind. Such an object may lack its kind.
    """
    found, version = document.get("kind"), document.get("apiVersion")
    for name, value in (("kind", found), ("apiVersion", version)):
        if not isinstance(value, str | None):
            text = f"json: cannot unmarshal {_NAMES[type(value)]} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {text}"
    if is_builtin:
        is_same = (found or kind.kind, version or kind.api_version) == (kind.kind, kind.api_version)
        return "" if is_same else f'no kind "{found}" is registered for version "{version}"'
    if not found:
        return "Object 'Kind' is missing"
    if version != kind.api_version:
        shown = f"{version or '/'}, Kind={found}"
        return f'{shown} is unstructured and is not suitable for converting to "{kind.api_version}"'
    return "" if isinstance(document.get("metadata", {}), dict) else "system metadata was not initialized"


def explain_wrong_metadata(document: JSONObject) -> str:
    """Return the first member of an object's metadata that does not fit its type, ``""`` if all do."""
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return _describe(metadata, "v1.ObjectMeta", ".metadata")
    return next(_check(metadata, _METADATA, "metadata", _load_types(), ""), "")


def explain_wrong_member(document: JSONObject, api_version: str, kind: str) -> str:
    """Return the first member of an object of a built-in kind that does not fit its type, ``""`` if all do.

    Args:
        document: The object.
        api_version: Its version before the patch.
        kind: Its kind before the patch.
    """
    types = _load_types()
    members = types.get(f"{api_version}.{kind}", {})
    found = (
        problem
        for name, value in document.items()
        if name in members
        for problem in _check(value, members[name], name, types, kind)
    )
    return next(found, "")


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_types: Final = msgspec.json.Decoder(dict[str, dict[str, str]]).decode


@functools.cache
def _load_types() -> Types:
    """Return all structs of built-in kinds from ``api_types.json``, which has the members by their type."""
    text = Path(__file__).with_name("api_types.json").read_bytes()
    return {
        struct: {member: type_ for type_, members in types.items() for member in members.split()}
        for struct, types in _decode_types(text).items()
    }


def _check(value: JSON, type_: str, path: str, types: Types, struct: str) -> Iterator[str]:
    """Yield the values that do not fit a type. Null is the zero value, and unknown members are dropped."""
    where = f"{struct}.{path}"
    if value is None:
        return
    if type_ in types:
        yield from _check_struct(value, type_, path, types, struct)
    elif type_.startswith("[]") and not (type_ == _BYTES and isinstance(value, str)):
        if not isinstance(value, list):
            yield _describe(value, type_, where)
            return
        for element in value:
            yield from _check(element, type_[2:], path, types, struct)
    elif type_.startswith(_MAP) or type_ == "ResourceList":
        if not isinstance(value, dict):
            yield _describe(value, "v1.ResourceList" if type_ == "ResourceList" else type_, where)
            return
        inner = "Quantity" if type_ == "ResourceList" else type_.removeprefix(_MAP)
        for element in value.values():
            yield from _check(element, inner, path, types, struct)
    elif (problem := _explain_scalar(value, type_, where)) is not None:
        yield problem


def _check_struct(value: JSON, type_: str, path: str, types: Types, struct: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _describe(value, type_, f"{struct}.{path}")
        return
    members = types[type_]
    for name, inner in value.items():
        if name in members:
            yield from _check(inner, members[name], f"{path}.{name}", types, type_.rpartition(".")[2])


def _explain_scalar(value: JSON, type_: str, where: str) -> str | None:
    """Return why a value does not fit a type without members, None if it does."""
    if type_ in _INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS[type_]
        return None if fits else _describe(value, type_, where)
    if type_ in (_BOOL, "float64"):
        fits = isinstance(value, bool) if type_ == _BOOL else _NAMES[type(value)] == "number"
        return None if fits else _describe(value, type_, where)
    if type_ in ("Quantity", _BYTES):
        return _explain_quantity(value) if type_ == "Quantity" else _explain_base64(value)
    if type_ == "IntOrString" and not isinstance(value, str):
        return _explain_scalar(value, "int32", where)
    if type_ in _TIMES and isinstance(value, str):
        pattern, layout = _TIMES[type_]
        return None if pattern.fullmatch(value) else f'parsing time "{value[:80]}" of {where} as "{layout}" failed'
    # Raw is any JSON; all other types are strings.
    is_text = isinstance(value, str) or type_ == "Raw"
    return None if is_text else _describe(value, _STRING if type_ in _TIMES else type_, where)


def _explain_base64(text: JSON) -> str | None:
    try:
        decode_bytes(text)
    except ValueError:
        return "illegal base64 data"
    return None


def _explain_quantity(value: JSON) -> str | None:
    if isinstance(value, str | int | float) and not isinstance(value, bool) and _QUANTITY.fullmatch(str(value)):
        return None
    return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _describe(value: JSON, type_: str, where: str) -> str:
    name = _NAMES[type(value)]
    shown = f"{name} {value}" if name == "number" and type_ in _INTEGERS else name
    # Go names a type by its package, which is the version.
    prefix, _, struct = type_.rpartition("]")
    named = struct.rpartition("/")[2]
    text = f"{prefix}]{named}" if prefix else named
    return f"json: cannot unmarshal {shown} into Go struct field {where} of type {text}"
