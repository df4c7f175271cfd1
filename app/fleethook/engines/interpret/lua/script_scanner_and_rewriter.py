"""Scans the tokens of a script of Lua 5.1, and rewrites them so that Lua 5.4 runs it as gopher-lua does.

Line numbers do not change.

- Table constructors create tables that remember the order of their keys, as gopher-lua's ``pairs`` does.
- Arithmetic uses doubles, as in gopher-lua. Literals become doubles; if neither operand is known to be a double, the
  left one is converted. Integers of documents without arithmetic keep all digits.
- ``^`` becomes a call of Go's function; operands of ``..`` are formatted by gopher-lua's rule.
- ``t[k] = nil`` becomes a call that keeps elements after the hole, as gopher-lua does.
- A generic ``for`` takes three values: a fourth one is a variable to be closed in Lua 5.4.
- Escapes that Lua 5.1 reads as the character itself become that character.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

TokenKind = Literal["name", "keyword", "number", "string", "operator", "end"]

_KEYWORDS: Final = frozenset(
    {
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
        "not", "or", "repeat", "return", "then", "true", "until", "while",
    }
)  # fmt: skip
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | --\[(?P<comment>=*)\[
  | (?P<remark>--[^\n]*)
  | \[(?P<long>=*)\[
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<string>"(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')
  | (?P<operator>\.\.\.|\.\.|==|~=|<=|>=|::|[-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.VERBOSE,
)


class LuaSyntaxError(ValueError):
    """A script is not valid Lua 5.1; the text names the problem.

    Attributes:
        line: The line of the script, from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line: Final = line


class Token(NamedTuple):
    """One token, with its offsets in the text and its first line."""

    kind: TokenKind
    text: str
    start: int
    end: int
    line: int


def scan_tokens(source: str) -> Iterator[Token]:
    """Yield the tokens of a script, the last of kind ``end``; raises LuaSyntaxError."""
    position, line = 0, 1
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise LuaSyntaxError(f"unexpected symbol near {source[position : position + 1]!r}", line)
        group = match.lastgroup
        end = match.end()
        if group in ("comment", "long"):
            end = _find_end(source, end, match.group(group), line)
        if group not in ("space", "comment", "remark"):
            text = source[position:end]
            yield Token(_find_kind(group, text), text, position, end, line)
        line += source.count("\n", position, end)
        position = end
    yield Token("end", "<eof>", position, position, line)


def _find_kind(group: str | None, text: str) -> TokenKind:
    if group == "name":
        return "keyword" if text in _KEYWORDS else "name"
    if group == "number":
        return "number"
    return "operator" if group == "operator" else "string"


def _find_end(source: str, start: int, level: str, line: int) -> int:
    """Return the offset of the end of a long string or comment."""
    close = f"]{level}]"
    found = source.find(close, start)
    if found < 0:
        raise LuaSyntaxError(f"unfinished long string or comment: {close} is missing", line)
    return found + len(close)


PREFIX: Final = "__fleethook_"
"""Prefix of the sandbox's own names; scripts cannot use them."""

_HEADER: Final = f"local _ENV,{PREFIX}t,{PREFIX}o,{PREFIX}h,{PREFIX}c,{PREFIX}s,{PREFIX}p,{PREFIX}f=...;"
_ESCAPE: Final = re.compile(r"\\([\s\S])")
_ESCAPES: Final = frozenset("abfnrtv\\\"'\n\r0123456789")
_THREE_VALUES: Final = re.compile(r"i?pairs\s*\(")
_INT64: Final = 2.0**63


class Rewriter:
    """Collects the edits of a script and applies them together.

    If several edits insert text at one offset, the last edit encloses the earlier ones.
    """

    def __init__(self, source: str) -> None:
        self._source: Final = source
        self._opening: Final[list[tuple[int, str]]] = []
        self._closing: Final[list[tuple[int, str]]] = []
        self._replaced: Final[dict[int, tuple[int, str]]] = {}

    def text(self) -> str:
        """Return the edited script, as a chunk whose arguments are its globals and the sandbox's functions."""
        edits = [(at, 1, -number, at, text) for number, (at, text) in enumerate(self._opening)]
        edits += [(at, 0, number, at, text) for number, (at, text) in enumerate(self._closing)]
        edits += [(start, 2, 0, end, text) for start, (end, text) in self._replaced.items()]
        pieces, position = [_HEADER], 0
        for start, _, _, end, text in sorted(edits):
            pieces += (self._source[position:start], text)
            position = end
        pieces.append(self._source[position:])
        return "".join(pieces)

    def wrap(self, start: int, end: int, before: str, after: str) -> None:
        """Insert text before and after a part."""
        self._opening.append((start, before))
        self._closing.append((end, after))

    def iterate(self, start: int, end: int) -> None:
        """Limit the values of a generic ``for``; those of ``pairs`` and ``ipairs`` are three."""
        if not _THREE_VALUES.match(self._source, start, end):
            self.wrap(start, end, f"{PREFIX}f(", ")")

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace a part."""
        self._replaced[start] = end, text

    def table(
        self, opened: Token, end: int, keys: Sequence[str], *, empty: bool, computed: bool, holes: int = 0
    ) -> None:
        """Make the table of a constructor remember the order of its keys.

        Args:
            opened: The opening brace.
            end: The end offset of the constructor.
            keys: The keys that are literals, in order.
            empty: Whether the constructor is empty.
            computed: Whether it has keys that are numbers or expressions.
            holes: The number of elements if one of them is a literal ``nil``, otherwise 0.
        """
        if empty:
            self.replace(opened.start, opened.end, f"{PREFIX}t({{")
            self._closing.append((end, ")"))
        elif keys or computed:
            arguments = f"{'true' if computed else 'false'},{','.join(keys) or 'nil'}"
            self.wrap(opened.start, end, f"{PREFIX}o(", f",{arguments})")
        elif holes:
            self.wrap(opened.start, end, f"{PREFIX}h(", f",{holes})")
        else:
            self.wrap(opened.start, end, f"{PREFIX}t(", ")")

    def number(self, token: Token, *, double: bool = False) -> None:
        """Rewrite a number literal: integral values as integers, unless ``double`` is set."""
        text = token.text.lower()
        value = float(int(text, 16)) if text.startswith("0x") else float(text)
        if math.isinf(value):
            written = "(1/0)"
        elif not double and value.is_integer() and value < _INT64:
            written = str(int(value))
        else:
            written = repr(value)
        self.replace(token.start, token.end, written)

    def clear(self, start: int, index: tuple[Token, Token], end: int) -> None:
        """Rewrite ``t[k] = nil`` as a call; ``start`` and ``end`` are the offsets of the statement."""
        opened, closed = index
        self.wrap(start, opened.start, f"{PREFIX}c(", "")
        self.replace(opened.start, opened.end, ",")
        self.replace(closed.start, end, ")" + "\n" * self._source.count("\n", closed.start, end))

    def double(self, end: int, operator: str) -> None:
        """Convert the left operand of an operator, which ends at ``end``, to a double; -0 stays -0."""
        self._closing.append((end, "-0.0" if operator in "+-" else "*1.0"))

    def negate(self, operator: Token, end: int) -> None:
        """Rewrite a unary minus so that it returns a double."""
        self.replace(operator.start, operator.end, "(-1.0*")
        self._closing.append((end, ")"))

    def power(self, start: int, operator: Token, end: int) -> None:
        """Rewrite ``^`` as a call."""
        self.wrap(start, end, f"{PREFIX}p(", ")")
        self.replace(operator.start, operator.end, ",")

    def text_of(self, start: int, end: int, name: str) -> None:
        """Format an operand of ``..``; ``name`` is its name in messages, ``""`` if it has none."""
        self.wrap(start, end, f"{PREFIX}s(", f',"{name}")' if name else ")")

    def string(self, token: Token) -> None:
        """Rewrite the escapes of a string literal for Lua 5.4."""
        if "\\" in token.text and token.text[0] != "[":
            text = _ESCAPE.sub(lambda match: match[0] if match[1] in _ESCAPES else match[1], token.text)
            if text != token.text:
                self.replace(token.start, token.end, text)


_ARITHMETIC: Final = frozenset("+-*%")

OperandKind = Literal["literal", "double", "text", "other"]
"""``literal`` is a number literal; ``double`` and ``text`` are expressions of that type."""


class Operand(NamedTuple):
    """An expression that may be an operand."""

    kind: OperandKind
    start: int
    end: int
    number: Token | None = None
    """The token, if the operand is a literal."""
    name: str = ""
    """Its name in messages, such as `` (field 'replicas')``."""


def apply_unary(edits: Rewriter, operator: Token, operand: Operand) -> Operand:
    """Return the result of a unary operator; minus returns a double.

    Args:
        edits: Collects the edits.
        operator: ``not``, ``-`` or ``#``.
        operand: The expression after the operator.
    """
    found = operand._replace(start=operator.start, name="")
    if operator.text != "-":
        return found._replace(kind="other", number=None)
    if operand.number is not None:
        if operand.number.text.strip("0.") != "":
            return found
        edits.number(operand.number, double=True)
    elif operand.kind != "double":
        edits.negate(operator, operand.end)
    return found._replace(kind="double", number=None)


def apply_binary(edits: Rewriter, left: Operand, operator: Token, right: Operand) -> Operand:
    """Return the result of a binary operator; arithmetic returns doubles.

    Args:
        edits: Collects the edits.
        left: The expression before the operator.
        operator: Of arithmetic, comparison or logic, or ``..``.
        right: The expression after the operator.
    """
    kind: OperandKind = "other"
    if operator.text in _ARITHMETIC:
        kind = "double"
        for operand in (left, right):
            if operand.number is not None:
                edits.number(operand.number, double=True)
        if "double" not in (left.kind, right.kind) and left.number is None and right.number is None:
            edits.double(left.end, operator.text)
    elif operator.text == "/":
        kind = "double"
    elif operator.text == "^":
        kind = "double"
        edits.power(left.start, operator, right.end)
    elif operator.text == "..":
        kind = "text"
        for operand in (left, right):
            if operand.kind != "text":
                edits.text_of(operand.start, operand.end, operand.name)
    return Operand(kind, left.start, right.end)


class Cursor:
    """A position in the tokens of a script; the parser derives from it."""

    def __init__(self, source: str) -> None:
        self._tokens: Final = scan_tokens(source)
        self._before: Token = Token("end", "", 0, 0, 1)
        self._now: Token = next(self._tokens)
        self._ahead: Token | None = None

    def _next(self) -> Token:
        token, self._before = self._now, self._now
        if self._ahead is not None:
            self._now, self._ahead = self._ahead, None
        else:
            self._now = next(self._tokens)
        return token

    def _peek(self) -> Token:
        if self._ahead is None:
            self._ahead = next(self._tokens, self._now)
        return self._ahead

    def _is(self, *texts: str) -> bool:
        return self._now.kind in ("operator", "keyword") and self._now.text in texts

    def _accept(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._next()
        return True

    def _expect(self, text: str, *, opened: Token | None = None) -> Token:
        if not self._is(text):
            hint = f" (to close {opened.text!r} of line {opened.line})" if opened is not None else ""
            raise LuaSyntaxError(f"{text!r} expected{hint} near {self._now.text!r}", self._now.line)
        return self._next()

    def _name(self) -> str:
        if self._now.kind != "name":
            raise LuaSyntaxError(f"a name is expected near {self._now.text!r}", self._now.line)
        if self._now.text.startswith(PREFIX):
            raise LuaSyntaxError(f"names that begin with {PREFIX} are reserved", self._now.line)
        return self._next().text

    def _unexpected(self) -> LuaSyntaxError:
        return LuaSyntaxError(f"unexpected symbol near {self._now.text!r}", self._now.line)
