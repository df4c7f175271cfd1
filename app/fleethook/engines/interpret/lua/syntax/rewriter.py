"""Rewrites a script of Lua 5.1 so that Lua 5.4 runs it as gopher-lua does; line numbers do not change.

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
from collections.abc import Sequence
from typing import Final

from fleethook.engines.interpret.lua.syntax.lexer import Token

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
            told = f"{'true' if computed else 'false'},{','.join(keys) or 'nil'}"
            self.wrap(opened.start, end, f"{PREFIX}o(", f",{told})")
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
