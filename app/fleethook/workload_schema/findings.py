"""Findings about a rendered workload, with messages about the mistake and its correction."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.model.formats.text import nearest
from fleethook.model.json import JSON
from fleethook.workload_schema.go_structs import load_structs, struct_name

Problem = Literal["unknown", "type", "missing", "value", "duplicate"]


class WorkloadFinding(NamedTuple):
    """A part of a workload that kube-apiserver would refuse or drop."""

    pointer: str
    """The JSON pointer of the member, even if it is missing."""
    problem: Problem
    """``unknown``: the field does not exist and kube-apiserver drops it, unless it is newer than our schema.

    ``type``: the value has a wrong JSON type. ``missing``: a required member is absent. ``value``: the type is right
    and the value is not. ``duplicate``: an earlier element has the same identity.
    """
    message: str
    """The mistake and its correction, without the pointer."""

    def __str__(self) -> str:
        return f"{self.pointer or 'the workload'}: {self.message}"


class Violation(NamedTuple):
    """A finding with a place inside the struct that a rule checks."""

    tokens: tuple[str | int, ...]
    """The path of the member in the struct, even if it is missing."""
    message: str
    problem: Problem = "value"


# A less similar name is often a field of another struct.
_MIN_SIMILARITY: Final = 0.75
_MAX_NAMES: Final = 12
_MAX_VALUE: Final = 60

_TYPE_NAMES: Final = {
    "object": "an object", "array": "a list", "string": "a string",
    "integer": "an integer", "number": "a number", "boolean": "true or false",
}  # fmt: skip


def describe_unknown(name: str, struct: str, parents: Sequence[str]) -> str:
    """Describe an unknown field of a struct, and suggest the field that was probably meant.

    Args:
        name: The unknown field.
        struct: The struct with the field, such as ``core.v1.Container``.
        parents: The structs around ``struct``, the nearest first.
    """
    known = load_structs()[struct]
    message = f"{_get_kind(struct)} has no field {_shorten(name)}"
    if close := nearest(name, known, similarity=_MIN_SIMILARITY):
        return f"{message}: did you mean {json.dumps(close)}?"
    for place, other in _list_neighbours(struct, parents):
        if name in load_structs()[other]:
            return f"{message}: it is a field of {place}"
    if len(known) <= _MAX_NAMES:
        return f"{message}: it has {', '.join(known)}"
    return f"{message}: correct the name or remove it"


def _list_neighbours(struct: str, parents: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the structs around and inside a struct, each with its description."""
    for parent in parents:
        yield _get_kind(parent), parent
    for name, field in load_structs()[struct].items():
        inner = struct_name(field.type)
        if inner is not None:
            yield f"{name} ({_get_kind(inner)})", inner


def _get_kind(struct: str) -> str:
    return struct.rpartition(".")[2]


def describe_type(value: JSON, types: Sequence[str], members: Mapping[str, JSON], required: Sequence[str]) -> str:
    """Describe a value with a wrong type.

    Args:
        value: The value.
        types: The allowed JSON types.
        members: The schemas of the members, if an object with known members is allowed.
        required: The names of the required members.
    """
    expected = " or ".join(_TYPE_NAMES[one] for one in sorted(types, reverse=True)) or "a value"
    if types == ["object"] and members:
        names = [*required, *(name for name in members if name not in required)]
        shown = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
        expected = f"an object ({shown})"
    return f"must be {expected}, not {shown_value(value)}{_advise_on_quotes(value, types)}"


def _advise_on_quotes(value: JSON, types: Sequence[str]) -> str:
    if types == ["string"] and isinstance(value, bool | int | float):
        return ": quote it"
    is_integer = "integer" in types and isinstance(value, str) and value.isdecimal()
    is_boolean = types == ["boolean"] and value in ("true", "false")
    return ": remove the quotes" if is_integer or is_boolean else ""


def describe_enum(value: JSON, options: Sequence[str]) -> str:
    """Describe a value that is none of the allowed ones."""
    options = [option for option in options if option]
    close = nearest(value, options, similarity=_MIN_SIMILARITY) if isinstance(value, str) else None
    hint = f"did you mean {close}?" if close else ""
    if len(options) > _MAX_NAMES:
        return f"{shown_value(value)} is not a value that Kubernetes knows{': ' if hint else ''}{hint}"
    return f"must be one of {', '.join(options)}, not {shown_value(value)}{': ' if hint else ''}{hint}"


def shown_value(value: JSON) -> str:
    """Return a value with the name of its type, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return f"the {'string' if isinstance(value, str) else 'number'} {_shorten(value)}"


def _shorten(value: str | float) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"
