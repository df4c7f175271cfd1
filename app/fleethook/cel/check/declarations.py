"""The names in expressions: variables, types, functions and their overloads, as kube-apiserver declares them."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from fleethook.cel.check.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_parameters,
    make_list,
    make_map,
    make_optional,
    make_type,
    make_wrapper,
    parse_type,
    parse_types,
)


class Overload(NamedTuple):
    """A signature of a function; the receiver of a member is its first argument."""

    name: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    parameters: tuple[Type, ...]


@cache
def read_functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of each function; ``declarations.txt`` has them."""
    found: dict[str, list[Overload]] = {}
    for function, overload in map(_read_overload, _read_rows("declarations.txt")):
        found.setdefault(function, []).append(overload)
    return {function: tuple(overloads) for function, overloads in found.items()}


def _read_rows(name: str) -> list[str]:
    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def _read_overload(line: str) -> tuple[str, Overload]:
    name, _, signature = line.partition(" ")
    function, _, rest = signature.partition("(")
    arguments, _, result = rest.rpartition(") -> ")
    types = parse_types(arguments)
    parameters = tuple(dict.fromkeys(list_parameters((*types, parse_type(result)))))
    overload = Overload(name, function.startswith("."), types, parse_type(result), parameters)
    return function.removeprefix(".") if overload.member else function, overload


def _read_message(line: str) -> tuple[str, Mapping[str, Type]]:
    name, *fields = line.split()
    return name, {field: parse_type(text) for field, _, text in (one.partition(":") for one in fields)}


FIELDS: Final[Mapping[str, Mapping[str, Type]]] = dict(map(_read_message, _read_rows("messages.txt")))
"""The fields of messages, by the message's name; ``messages.txt`` has them."""

_MESSAGES: Final = {
    **{name: Type("struct", name) for name in FIELDS},
    **{
        name: make_wrapper(fields["value"])
        for name, fields in FIELDS.items()
        if name.startswith("google.protobuf.") and list(fields) == ["value"]
    },
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Struct": make_map(STRING, DYN),
    "google.protobuf.ListValue": make_list(DYN),
    "google.protobuf.Value": DYN,
    "google.protobuf.Any": ANY,
}
_A: Final = Type("param", "A")
_B: Final = Type("param", "B")
TYPES: Final[Mapping[str, Type]] = {
    **{one.name: one for one in (BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT)},
    "list": make_list(_A),
    "map": make_map(_A, _B),
    "type": Type("type", "type"),
    "optional_type": make_optional(_A),
    **{name: Type("opaque", name) for name in ("net.IP", "net.CIDR")},
    # The planner knows these two by the names of their messages only.
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    **_MESSAGES,
}
"""The types that expressions can name."""

_AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
IDENTS: Final[Mapping[str, Type]] = {
    **{name: make_type(one) for name, one in TYPES.items()},
    "google.protobuf.NullValue": INT,
    "google.protobuf.NullValue.NULL_VALUE": INT,
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _MESSAGES["kubernetes.Namespace"],
    "request": _MESSAGES["kubernetes.AdmissionRequest"],
    "authorizer": Type("opaque", _AUTHORIZER),
    "authorizer.requestResource": Type("opaque", "kubernetes.authorization.ResourceCheck"),
}
"""The types of all names that are no functions; the type of a type's name is ``type(T)``."""
