"""What is changed in a script of 5.1 so that 5.4 runs it alike; every line stays where it is.

- Table constructors make tables that remember the order of their keys, as gopher-lua's ``pairs`` does.
- Arithmetic has doubles, as in gopher-lua: literals of an operation are written as such, and where neither operand is
  known to be one, the left one is made one. Integers of documents that nobody computes with keep all of their digits.
- ``^`` is a call of Go's function; operands of ``..`` are written by gopher-lua's rule.
- ``t[k] = nil`` is a call that keeps elements after the hole, as gopher-lua does.
- Escapes that 5.1 takes for the character itself are that character.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

from app.interpret.lua.lexer import Token

PREFIX: Final = "__fleethook_"
"""Names that begin so are the sandbox's own; scripts cannot say them."""

_HEADER: Final = f"local _ENV,{PREFIX}t,{PREFIX}o,{PREFIX}h,{PREFIX}c,{PREFIX}s,{PREFIX}p=...;"
_ESCAPE: Final = re.compile(r"\\([\s\S])")
_ESCAPES: Final = frozenset("abfnrtv\\\"'\n\r0123456789")
_INT64: Final = 2.0**63


class Rewriter:
    """Edits of a text, made all at once.

    What opens at one place is in the order of nesting: what was told last encloses the others.
    """

    def __init__(self, source: str) -> None:
        self._source: Final = source
        self._opening: Final[list[tuple[int, str]]] = []
        self._closing: Final[list[tuple[int, str]]] = []
        self._replaced: Final[dict[int, tuple[int, str]]] = {}

    def text(self) -> str:
        """Return the text with its edits, as a chunk that is given its globals and what makes tables and numbers."""
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
        """Put texts before and after a part."""
        self._opening.append((start, before))
        self._closing.append((end, after))

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in the place of a part."""
        self._replaced[start] = end, text

    def table(
        self, opened: Token, end: int, keys: Sequence[str], *, empty: bool, computed: bool, holes: int = 0
    ) -> None:
        """Make the table of a constructor remember its keys.

        Args:
            opened: Its brace.
            end: Where it ends.
            keys: Those that its text names, as literals, in order.
            empty: Whether there is nothing in it.
            computed: Whether it has keys that only running it tells, or numbers.
            holes: How many elements it has if its text says ``nil`` for one of them.
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
        """Write a literal as the number that it is: whole ones as integers, unless a double is asked for."""
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
        """Make ``t[k] = nil`` a call, given where the statement begins, the brackets and where it ends."""
        opened, closed = index
        self.wrap(start, opened.start, f"{PREFIX}c(", "")
        self.replace(opened.start, opened.end, ",")
        self.replace(closed.start, end, ")" + "\n" * self._source.count("\n", closed.start, end))

    def double(self, end: int, operator: str) -> None:
        """Make the left operand of an operator a double, given where it ends; -0 stays what it is."""
        self._closing.append((end, "-0.0" if operator in "+-" else "*1.0"))

    def negate(self, operator: Token, end: int) -> None:
        """Make a minus sign give a double."""
        self.replace(operator.start, operator.end, "(-1.0*")
        self._closing.append((end, ")"))

    def power(self, start: int, operator: Token, end: int) -> None:
        """Make ``^`` a call."""
        self.wrap(start, end, f"{PREFIX}p(", ")")
        self.replace(operator.start, operator.end, ",")

    def text_of(self, start: int, end: int, name: str) -> None:
        """Write an operand of ``..``; ``name`` is how messages call it, if they can."""
        self.wrap(start, end, f"{PREFIX}s(", f',"{name}")' if name else ")")

    def string(self, token: Token) -> None:
        """Write the escapes of a literal as 5.4 takes them."""
        if "\\" in token.text and token.text[0] != "[":
            text = _ESCAPE.sub(lambda match: match[0] if match[1] in _ESCAPES else match[1], token.text)
            if text != token.text:
                self.replace(token.start, token.end, text)
