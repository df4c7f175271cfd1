"""What is changed in a script of 5.1 so that 5.4 runs it alike; every line stays where it is.

- Table constructors make tables that remember the order of their keys, as gopher-lua's ``pairs`` does.
- ``/`` and ``^`` of whole results give whole numbers, as 5.1 prints and counts them; so do literals.
- Escapes that 5.1 takes for the character itself are that character.
"""

import re
from collections.abc import Sequence
from typing import Final

from app.interpret.lua.lexer import Token

PREFIX: Final = "__fleethook_"
"""Names that begin so are the sandbox's own; scripts cannot say them."""

_HEADER: Final = f"local _ENV,{PREFIX}t,{PREFIX}o,{PREFIX}n=...;"
_ESCAPE: Final = re.compile(r"\\([\s\S])")
_ESCAPES: Final = frozenset("abfnrtv\\\"'\n\r0123456789")
_EXACT: Final = 2**53


class Rewriting:
    """Edits of a text, made all at once.

    What opens at one place is in the order of nesting: what was told last encloses the others.
    """

    def __init__(self, source: str) -> None:
        self._source: Final = source
        self._opening: Final[list[tuple[int, str]]] = []
        self._closing: Final[list[tuple[int, str]]] = []
        self._replaced: Final[list[tuple[int, int, str]]] = []

    def text(self) -> str:
        """Return the text with its edits, as a chunk that is given its globals and what makes tables and numbers."""
        edits = [(at, 1, -number, at, text) for number, (at, text) in enumerate(self._opening)]
        edits += [(at, 0, number, at, text) for number, (at, text) in enumerate(self._closing)]
        edits += [(start, 2, 0, end, text) for start, end, text in self._replaced]
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

    def whole(self, start: int, end: int) -> None:
        """Make the number that an expression gives a whole one where it is."""
        self.wrap(start, end, f"{PREFIX}n(", ")")

    def table(self, opened: Token, end: int, keys: Sequence[str], *, empty: bool, computed: bool) -> None:
        """Make the table of a constructor remember its keys.

        Args:
            opened: Its brace.
            end: Where it ends.
            keys: Those that its text names, as literals, in order.
            empty: Whether there is nothing in it.
            computed: Whether it has keys that only running it tells, or numbers.
        """
        if empty:
            self._replaced.append((opened.start, opened.end, f"{PREFIX}t({{"))
            self._closing.append((end, ")"))
        elif keys or computed:
            told = f"{'true' if computed else 'false'},{','.join(keys) or 'nil'}"
            self.wrap(opened.start, end, f"{PREFIX}o(", f",{told})")
        else:
            self.wrap(opened.start, end, f"{PREFIX}t(", ")")

    def number(self, token: Token) -> None:
        """Write a literal that is whole as a whole number."""
        if not token.text.lower().startswith("0x") and set(token.text) & set(".eE"):
            value = float(token.text)
            if value.is_integer() and value < _EXACT:
                self._replaced.append((token.start, token.end, str(int(value))))

    def string(self, token: Token) -> None:
        """Write the escapes of a literal as 5.4 takes them."""
        if "\\" in token.text and token.text[0] != "[":
            text = _ESCAPE.sub(lambda match: match[0] if match[1] in _ESCAPES else match[1], token.text)
            if text != token.text:
                self._replaced.append((token.start, token.end, text))
