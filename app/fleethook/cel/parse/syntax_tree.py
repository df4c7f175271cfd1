"""The syntax tree of an expression (cel-go: common/ast/expr.go), and the values of its literals.

The type checker adds types and overloads to the tree.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from fleethook.cel.check.types_and_declarations import Type
from fleethook.cel.values.values_and_overloads import MAX_INT, MAX_UINT, MIN_INT, Uint


@dataclass(slots=True, eq=False)
class Node:
    """A part of an expression.

    Attributes:
        offset: The position of its first operator or token in the expression, in characters.
        type: Its type, after the check.
        overloads: The overloads that a call may take, after the check.
    """

    offset: int
    type: Type | None = dataclasses.field(default=None, init=False)
    overloads: tuple[str, ...] = dataclasses.field(default=(), init=False)

    def list_children(self) -> "Iterator[Node]":
        """Yield the parts inside this one, in their order."""
        yield from ()


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A literal of a scalar."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name. The check replaces the name by the qualified name of its declaration."""

    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """``operand.field``, or ``has(operand.field)``; ``resolved`` if all of it is the name of a declaration."""

    operand: Node
    field: str
    tested: bool = dataclasses.field(default=False, kw_only=True)
    resolved: str = dataclasses.field(default="", init=False)

    def list_children(self) -> Iterator[Node]:
        """Yield the operand."""
        yield self.operand


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call; the check removes the target of a function with a qualified name."""

    function: str
    arguments: list[Node]
    target: Node | None = None

    def list_children(self) -> Iterator[Node]:
        """Yield the target and the arguments."""
        if self.target is not None:
            yield self.target
        yield from self.arguments


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """``[a, ?b]``; ``optional`` has the positions of the elements with a question mark."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()

    def list_children(self) -> Iterator[Node]:
        """Yield the elements."""
        yield from self.elements


@dataclass(slots=True, eq=False)
class MapEntry(Node):
    """One entry of a map literal."""

    key: Node
    value: Node
    optional: bool = dataclasses.field(kw_only=True)

    def list_children(self) -> Iterator[Node]:
        """Yield the key and the value."""
        yield self.key
        yield self.value


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """``{a: b, ?c: d}``."""

    entries: list[MapEntry]

    def list_children(self) -> Iterator[Node]:
        """Yield the entries."""
        yield from self.entries


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """The loop behind a macro such as ``all``; ``second`` is the second variable's name, ``""`` if there is none."""

    range: Node
    _: KW_ONLY
    first: str
    initial: Node
    condition: Node
    step: Node
    result: Node
    second: str = ""
    accumulator: str = "@result"

    def list_children(self) -> Iterator[Node]:
        """Yield the parts in the order of their check."""
        yield from (self.range, self.initial, self.condition, self.step, self.result)


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it. Each node comes before the nodes below it."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(list(one.list_children()))


_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<plain>[abfnrtv"'\\?`])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})
    |U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>[\s\S]?))""".replace("\n    ", ""),
)
_PLAIN: Final = dict(zip("abfnrtv\"'\\?`", "\a\b\f\n\r\t\v\"'\\?`", strict=True))


def _read_int(text: str) -> int:
    digits = text.removeprefix("-")
    value = int(digits, 16 if digits.startswith("0x") else 10)
    value = -value if text.startswith("-") else value
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError("invalid int literal")
    return value


def _read_uint(text: str) -> Uint:
    value = int(text[:-1], 16 if text.startswith("0x") else 10)
    if value > MAX_UINT:
        raise ValueError("invalid uint literal")
    return Uint(value)


def _read_float(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError("invalid double literal")
    return value


def _read_string(text: str) -> str:
    return _unescape(text, is_bytes=False)


def _read_bytes(text: str) -> bytes:
    # Mark the bytes of escapes until the text is encoded, because other characters have the same numbers.
    return _unescape(text[1:], is_bytes=True).encode("utf-8", "surrogateescape")


LITERAL_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "int": _read_int,
    "uint": _read_uint,
    "float": _read_float,
    "string": _read_string,
    "bytes": _read_bytes,
}
"""Return the value of a literal by the kind of its token; raise ValueError for an invalid one."""


def _unescape(text: str, *, is_bytes: bool) -> str:
    """Return the content of a quoted string (cel-go: parser/unescape.go).

    A byte of an escape in a bytes literal is a surrogate, which Python's ``surrogateescape`` encodes to that byte.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quote = 3 if len(text) >= 6 and text[:3] in {"'''", '"""'} else 1
    text = text[quote:-quote]
    if raw or "\\" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        if found["plain"]:
            return _PLAIN[found["plain"]]
        if found["bad"] is not None or (is_bytes and (found["short"] or found["long"])):
            raise ValueError("unable to unescape string")
        octal = found["octal"]
        code = int(octal, 8) if octal else int(found["hex"] or found["short"] or found["long"], 16)
        if is_bytes:
            return chr(code) if code < 0x80 else chr(0xDC00 + code)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError("invalid unicode code point")
        return chr(code)

    return _ESCAPE.sub(replace, text)
