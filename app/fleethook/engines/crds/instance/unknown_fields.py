"""Finds unknown fields of ``spec.crdTarball``, such as a misspelled ``sha256``.

With upstream's CRD the API server drops them. With fleethook's CRD it keeps them
(``x-kubernetes-preserve-unknown-fields``). Either way a misspelled pin would not be checked. The known fields are those
of `fleethook.model.operator`.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from fleethook.model.formats.field_errors import Problem
from fleethook.model.formats.spelling import nearest
from fleethook.model.json import JSONObject
from fleethook.model.operator import ConfigMapSource, CRDTarball, SecretReference

# Each suggestion compares the name with every known one. A request may have 100,000 names.
_MAX_FINDINGS: Final = 16
_MAX_NAME: Final = 64
# `reference_problems` admits a namespace if it is the instance's own.
_ALSO_KNOWN: Final[Mapping[type, tuple[str, ...]]] = {SecretReference: ("namespace",), ConfigMapSource: ("namespace",)}

Members = Mapping[str, "Members | None"]
"""The fields of an object, each with the fields below it; None for a field that is not an object."""


def find_unknown_fields(tarball: JSONObject, field: str) -> Iterator[Problem]:
    """Yield the unknown fields of a ``crdTarball`` at any depth, each with the nearest known name.

    Args:
        tarball: The object; its fields may have any type.
        field: Path of the object.
    """
    unknown = _describe_unknown(tarball, field, _MEMBERS)
    yield from islice(unknown, _MAX_FINDINGS)
    more = sum(1 for _ in _walk_unknown(tarball, field, _MEMBERS)) - _MAX_FINDINGS
    if more > 0:
        yield Problem(field, f"Forbidden: there are {more} more unknown fields")


def _describe_unknown(value: JSONObject, field: str, members: Members) -> Iterator[Problem]:
    for path, name, known in _walk_unknown(value, field, members):
        yield Problem(f"{path}.{_shorten(name)}", f"Forbidden: unknown field{_suggest(name, known)}")


def _walk_unknown(value: JSONObject, field: str, members: Members) -> Iterator[tuple[str, str, Members]]:
    """Yield the path of the object, the name and the known names for each unknown field."""
    for name, inner in value.items():
        if name not in members:
            yield field, name, members
        elif (below := members[name]) is not None and isinstance(inner, dict):
            yield from _walk_unknown(inner, f"{field}.{name}", below)


def _suggest(name: str, known: Members) -> str:
    if home := _find_home(name, _MEMBERS, "spec.crdTarball"):
        return f": it belongs in {home}"
    if (near := nearest(name, known)) is not None:
        return f"; did you mean {near}?"
    return f"; known are {', '.join(known)}"


def _find_home(name: str, members: Members, field: str) -> str:
    """Return the path of the first object with a field of this name; ``""`` without one."""
    if name in members:
        return field
    below = (_find_home(name, inner, f"{field}.{member}") for member, inner in members.items() if inner is not None)
    return next(filter(None, below), "")


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"


def _list_members(struct: type[msgspec.Struct]) -> Members:
    found: dict[str, Members | None] = {
        field.encode_name: None if (inner := _find_struct(field.type)) is None else _list_members(inner)
        for field in msgspec.structs.fields(struct)
    }
    return found | dict.fromkeys(_ALSO_KNOWN.get(struct, ()))


def _find_struct(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the struct in an annotation, alone or in a union with None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _find_struct(typing.get_args(annotation)[0])
    if origin in (types.UnionType, typing.Union):
        return next(filter(None, map(_find_struct, typing.get_args(annotation))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else None


_MEMBERS: Final = _list_members(CRDTarball)
