"""Splits a script into the tokens of Lua 5.1 (reference manual, 2.1), each with its position."""

import re
from collections.abc import Iterator
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
