"""Types, their unification, and the types of all names in expressions, as kube-apiserver declares them.

Upstream: cel-go, common/types/types.go and checker/types.go.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple


class Type(NamedTuple):
    """A type.

    Attributes:
        kind: ``list``, ``map``, ``struct``, ``opaque``, ``param``, ``dyn``, ``error``, or a scalar.
        name: The name that expressions and errors use; for a type parameter, its identity.
        parameters: Element types of lists, maps, types and opaque types.
    """

    kind: str
    name: str
    parameters: "tuple[Type, ...]" = ()


BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
INT: Final = Type("int", "int")
STRING: Final = Type("string", "string")
UINT: Final = Type("uint", "uint")
NULL: Final = Type("null", "null_type")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")

_NAMED: Final = {one.name: one for one in (BOOL, BYTES, DOUBLE, INT, STRING, UINT, NULL, DYN, DURATION, TIMESTAMP)}
_OPTIONAL: Final = "optional_type"
_SHORT_NAMES: Final = {"duration": "duration", "timestamp": "timestamp", "null": "null"}
_TOKEN: Final = re.compile(r"[\w.]+|[(),]")
_NESTED: Final = frozenset({"list", "map", "opaque", "type"})
_NULLABLE: Final = frozenset({"opaque", "struct", "duration", "timestamp"})


def make_list(element: Type) -> Type:
    """Return the type of lists with such elements."""
    return Type("list", "list", (element,))


def make_map(key: Type, value: Type) -> Type:
    """Return the type of maps with such keys and values."""
    return Type("map", "map", (key, value))


def make_optional(value: Type) -> Type:
    """Return the type of optional values."""
    return Type("opaque", _OPTIONAL, (value,))


def make_type(instance: Type) -> Type:
    """Return the type of a type's name."""
    return Type("type", "type", (instance,))


def parse_type(text: str) -> Type:
    """Return the type that declarations write as ``map(string, list(A))`` or ``struct(kubernetes.UserInfo)``."""
    (found,) = parse_types(text)
    return found


def parse_types(text: str) -> tuple[Type, ...]:
    """Return types that commas separate."""
    return _read_types(deque(_TOKEN.findall(text)))


def _read_types(tokens: deque[str]) -> tuple[Type, ...]:
    """Return the types up to a closing parenthesis, and remove both from the tokens."""
    found: list[Type] = []
    while tokens:
        name = tokens.popleft()
        if name == ")":
            break
        if name == ",":
            continue
        parameters: tuple[Type, ...] = ()
        if tokens and tokens[0] == "(":
            tokens.popleft()
            parameters = _read_types(tokens)
        found.append(_build(name, parameters))
    return tuple(found)


def _build(name: str, parameters: tuple[Type, ...]) -> Type:
    if name in {"list", "map", "type"}:
        return Type(name, name, parameters)
    if name == "struct":
        return Type(name, parameters[0].name)
    if len(name) == 1:
        return Type("param", name)
    return _NAMED.get(name) or Type("opaque", name, parameters)


def format_type(one: Type) -> str:
    """Return a type as errors of the type checker write it (cel-go: checker/format.go)."""
    if one.kind == "opaque" and not one.parameters:
        return one.name
    return _SHORT_NAMES.get(one.kind) or _format(one, format_type)


def describe_type(one: Type) -> str:
    """Return a type as kube-apiserver names the type of a condition (cel-go: Type.String)."""
    return _format(one, describe_type)


def _format(one: Type, format_parameter: Callable[[Type], str]) -> str:
    return f"{one.name}({', '.join(map(format_parameter, one.parameters))})" if one.parameters else one.name


def is_dynamic(one: Type) -> bool:
    """Return whether every value may have this type."""
    return one.kind == "dyn"


def is_dynamic_or_error(one: Type) -> bool:
    """Return whether the type is dynamic, or unknown after an error."""
    return one.kind in {"dyn", "error"}


def unwrap_optional(one: Type) -> tuple[Type, bool]:
    """Return the type inside an optional, and whether the type is optional."""
    if one.kind == "opaque" and one.name == _OPTIONAL:
        return one.parameters[0], True
    return one, False


class Substitutions:
    """The types that type parameters stand for."""

    __slots__ = ("_former", "_found")

    def __init__(self) -> None:
        self._found: dict[Type, Type] = {}
        # The former values of the parameters that `assign_all` has changed, to restore them.
        self._former: list[tuple[Type, Type | None]] = []

    def assign(self, one: Type, other: Type) -> bool:
        """Return whether ``one`` is assignable to ``other``; if so, keep the types of type parameters."""
        return self.assign_all((one,), (other,))

    def assign_all(self, types: Sequence[Type], others: Sequence[Type]) -> bool:
        """Return whether all types are assignable in their order; otherwise change nothing."""
        self._former.clear()
        if self._are_assignable(types, others):
            return True
        for parameter, former in reversed(self._former):
            if former is None:
                del self._found[parameter]
            else:
                self._found[parameter] = former
        return False

    def _set(self, parameter: Type, one: Type) -> None:
        self._former.append((parameter, self._found.get(parameter)))
        self._found[parameter] = one

    def substitute(self, one: Type, *, dynamic: bool = False) -> Type:
        """Replace type parameters by the types they stand for; with ``dynamic``, replace unbound ones by ``dyn``."""
        found = self._found.get(one)
        if found is not None:
            return self.substitute(found, dynamic=dynamic)
        if one.kind == "param":
            return DYN if dynamic else one
        if one.kind in _NESTED and one.parameters:
            return one._replace(parameters=tuple([self.substitute(each, dynamic=dynamic) for each in one.parameters]))
        return one

    def _are_assignable(self, types: Sequence[Type], others: Sequence[Type]) -> bool:
        return len(types) == len(others) and all(map(self._is_assignable, types, others))

    def _is_assignable(self, one: Type, other: Type) -> bool:
        if other.kind == "param":
            valid, known = self._bind(one, other)
            if valid or known:
                return valid
        if one.kind == "param":
            return self._bind(other, one)[0]
        return is_dynamic_or_error(one) or is_dynamic_or_error(other) or self._is_same(one, other)

    def _is_same(self, one: Type, other: Type) -> bool:
        """Return whether a type is assignable to another, if neither is dynamic or a parameter."""
        if one.kind == "null" or other.kind == "null":
            return _accepts_null(other if one.kind == "null" else one)
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in _NESTED:
            return (one.kind, one.name) == (other.kind, other.name) and self._are_assignable(
                one.parameters, other.parameters
            )
        return one == other

    def _bind(self, one: Type, parameter: Type) -> tuple[bool, bool]:
        """Return whether a parameter may stand for a type, and whether it already stands for one."""
        if one == parameter:
            return True, True
        found = self._found.get(parameter)
        if found is not None:
            if one == found:
                return True, True
            if not self._is_assignable(one, found):
                return False, True
            general = get_most_general(one, found)
            if self._is_free(parameter, general):
                self._set(parameter, general)
            return True, True
        if self._is_free(parameter, one):
            self._set(parameter, one)
            return True, False
        return False, False

    def _is_free(self, parameter: Type, within: Type) -> bool:
        """Return whether a parameter does not occur in a type."""
        if parameter == within:
            return False
        if within.kind == "param":
            found = self._found.get(within)
            return found is None or self._is_free(parameter, found)
        return within.kind not in _NESTED or all(self._is_free(parameter, one) for one in within.parameters)


def instantiate(types: Sequence[Type], fresh: Mapping[Type, Type]) -> tuple[Type, ...]:
    """Replace the type parameters of a declaration by fresh ones."""
    return tuple([_replace_parameters(type_, fresh) for type_ in types])


def _replace_parameters(one: Type, fresh: Mapping[Type, Type]) -> Type:
    if one.kind == "param":
        return fresh[one]
    return one._replace(parameters=instantiate(one.parameters, fresh)) if one.parameters else one


def list_parameters(types: Sequence[Type]) -> Iterator[Type]:
    """Yield the type parameters in types."""
    for type_ in types:
        if type_.kind == "param":
            yield type_
        yield from list_parameters(type_.parameters)


def get_most_general(one: Type, other: Type) -> Type:
    """Return the more general of two types of which one is assignable to the other."""
    return one if _is_equal_or_less_specific(one, other) else other


def _is_equal_or_less_specific(one: Type, other: Type) -> bool:
    if is_dynamic(one) or one.kind == "param":
        return True
    if is_dynamic(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in _NESTED:
        return (one.name, len(one.parameters)) == (other.name, len(other.parameters)) and all(
            map(_is_equal_or_less_specific, one.parameters, other.parameters)
        )
    return one == other


def _accepts_null(one: Type) -> bool:
    return one.kind in _NULLABLE or one.kind == "null"


class Overload(NamedTuple):
    """A signature of a function; the receiver of a member is its first argument."""

    name: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    parameters: tuple[Type, ...]


@cache
def read_functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of each function; ``functions.txt`` has them."""
    found: dict[str, list[Overload]] = {}
    for function, overload in map(_read_overload, _read_rows("functions.txt")):
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


FIELDS: Final[Mapping[str, Mapping[str, Type]]] = dict(map(_read_message, _read_rows("object_fields.txt")))
"""The fields of messages, by the message's name; ``object_fields.txt`` has them."""

_MESSAGES: Final = {
    **{name: Type("struct", name) for name in FIELDS},
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
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
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _MESSAGES["kubernetes.Namespace"],
    "request": _MESSAGES["kubernetes.AdmissionRequest"],
    "authorizer": Type("opaque", _AUTHORIZER),
    "authorizer.requestResource": Type("opaque", "kubernetes.authorization.ResourceCheck"),
}
"""The types of all names except functions. The name of a type ``T`` has the type ``type(T)``."""
