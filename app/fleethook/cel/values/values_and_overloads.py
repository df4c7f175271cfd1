"""Values of expressions, their quoted forms, and the functions that take them.

Decoded JSON needs no conversion: None, bool, int, float, str, list and dict are CEL values. This module has the other
types.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1

NO_SUCH_OVERLOAD: Final = "no such overload"


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as a value, as ``type(1)`` returns it."""

    name: str


@dataclass(slots=True, eq=False)
class Optional:
    """An optional value. `NONE` is the optional without a value."""

    value: Any


@dataclass(slots=True, eq=False)
class CelError:
    """An error as a value, because ``||``, ``&&`` and comprehensions may continue after an error."""

    text: str


class Foreign:
    """A value of a type that Kubernetes adds to CEL; ``kind`` is the type's name in expressions."""

    __slots__ = ()
    kind: ClassVar[str] = ""


@dataclass(slots=True, eq=False)
class IdentityKey:
    """A key of a map that has no hash, such as a list: it equals only itself, as a pointer does in Go."""

    value: Any


class GrowingList(list[Any]):
    """The list that a comprehension builds: ``+`` extends it in place (cel-go: types.MutableList)."""

    __slots__ = ()


class GrowingMap(dict[Any, Any]):
    """The map that a comprehension builds (cel-go: types.MutableMap)."""

    __slots__ = ()


NONE: Final = Optional(None)

_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    GrowingList: "list",
    dict: "map",
    GrowingMap: "map",
    CelType: "type",
    Optional: "optional_type",
}
_TYPE_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


def get_kind(type_: type) -> str:
    """Return the name of a Python type in signatures of functions, ``""`` if it has none."""
    return _KINDS.get(type_) or str(getattr(type_, "kind", ""))


def get_type(value: Any) -> CelType:
    """Return the type of a value, as ``type()`` does in an expression."""
    kind = get_kind(type(value))
    return CelType(_TYPE_NAMES.get(kind, kind))


def is_out_of_range(value: Any) -> bool:
    """Return whether a value is an integer outside CEL's range of 64 bits."""
    return type(value) is int and not MIN_INT <= value <= MAX_INT


def make_range_error(value: int) -> CelError:
    """Return the error for an integer outside CEL's range of 64 bits."""
    return CelError(f"integer out of range: {value if abs(value) < 10**30 else 'more than 30 digits'}")


# Errors are for people, so they do not repeat a string of megabytes.
_MAX_CHARACTERS: Final = 256
_ESCAPES: Final = dict(
    zip('\a\b\f\n\r\t\v\\"', (r"\a", r"\b", r"\f", r"\n", r"\r", r"\t", r"\v", r"\\", r"\""), strict=True)
)
_CEL_ESCAPES: Final = str.maketrans(_ESCAPES)


def quote_text(text: str) -> str:
    """Return ``text`` in double quotes for an error, like Go's %q for printable characters; a long text is cut."""
    return json.dumps(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", ensure_ascii=False)


def quote(text: str) -> str:
    """Return ``text`` in double quotes with Go's escapes (Go: strconv.Quote)."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote_cel(text: str) -> str:
    """Return ``text`` in double quotes with CEL's escapes (cel-go: ext/strings.go, strings.quote)."""
    return f'"{text.translate(_CEL_ESCAPES)}"'


# cel-go's traits of values refuse wrong types for these functions and for operators, without the name of the function.
_UNNAMED: Final = frozenset({"contains", "endsWith", "matches", "startsWith"})


class Function(NamedTuple):
    """One overload of a function. For a member, the first of ``types`` is the receiver."""

    name: str
    types: tuple[str, ...]
    code: Callable[..., Any]


class OverloadResolver:
    """All overloads of one function. Calling it calls the first overload that accepts the types of the arguments."""

    __slots__ = ("_found", "_functions")

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions: Final = functions
        self._found: dict[tuple[type, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the matching overload; raises TypeError if no overload accepts the arguments."""
        types = tuple(map(type, arguments))
        code = self._found.get(types)
        if code is None:
            code = self._found[types] = self._find(arguments)
        return code(*arguments)

    def _find(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        kinds = [get_kind(type(argument)) for argument in arguments]
        for function in self._functions:
            if len(function.types) == len(kinds) and all(map(_accepts, function.types, kinds)):
                return function.code
        name = self._functions[0].name
        if name in _UNNAMED or "_" in name:
            raise TypeError(NO_SUCH_OVERLOAD)
        shown = ", ".join(get_type(argument).name for argument in arguments)
        raise TypeError(f"{NO_SUCH_OVERLOAD}: {name}" if name == "size" else f"{NO_SUCH_OVERLOAD}: {name}({shown})")


def _accepts(parameter: str, kind: str) -> bool:
    """Return whether a parameter accepts values of a kind."""
    return parameter in ("dyn", kind)


def build_resolvers(functions: Iterable[Function]) -> dict[str, OverloadResolver]:
    """Return an `OverloadResolver` for each function, by the function's name."""
    named: dict[str, list[Function]] = {}
    for function in functions:
        named.setdefault(function.name, []).append(function)
    return {name: OverloadResolver(overloads) for name, overloads in named.items()}


def can_parse(parse: Callable[[Any], object], value: Any) -> bool:
    """Return whether ``parse`` accepts a value without an error."""
    try:
        parse(value)
    except (ValueError, OverflowError, TypeError):
        return False
    return True
