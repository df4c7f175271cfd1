"""String functions: version 2 of cel-go's ext.Strings, which counts positions in code points."""

import string
from collections.abc import Sequence
from typing import Final

from fleethook.cel.evaluation import spend
from fleethook.cel.functions import Function
from fleethook.cel.library.formatting import format_list
from fleethook.cel.values.quoting import quote_cel
from fleethook.cel.values.values import NO_SUCH_OVERLOAD

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
# Go's unicode.IsSpace. Python's str.strip also removes the separators 0x1c to 0x1f.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# As many characters take the memory of one list element.
_CHARACTERS_PER_ELEMENT: Final = 10
# A short string takes the memory of this many list elements.
_WORK_OF_TEXT: Final = 6


def _get_character(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise IndexError(f"index out of range: {position}")
    return text[position : position + 1]


def _cut_substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise IndexError(f"index out of range: {position}")
    if start > end:
        raise IndexError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        spend(_WORK_OF_TEXT * text.count(separator))
        return text.split(separator, max(-1, limit - 1))
    spend(_WORK_OF_TEXT * len(text))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old)
    times = found if limit < 0 else min(found, limit)
    spend((len(text) + max(0, len(new) - len(old)) * times) // _CHARACTERS_PER_ELEMENT)
    return text.replace(old, new, times)


def _join(texts: Sequence[str], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(NO_SUCH_OVERLOAD)
    spend((sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1)) // _CHARACTERS_PER_ELEMENT)
    return separator.join(texts)


STRING_FUNCTIONS: Final = (
    Function("strings.quote", ("string",), quote_cel),
    Function("charAt", ("string", "int"), _get_character),
    Function("format", ("string", "list"), format_list),
    Function("lowerAscii", ("string",), lambda text: text.translate(_LOWER)),
    Function("upperAscii", ("string",), lambda text: text.translate(_UPPER)),
    Function("trim", ("string",), lambda text: text.strip(_SPACES)),
    Function("split", ("string", "string"), _split),
    Function("split", ("string", "string", "int"), _split),
    Function("substring", ("string", "int"), _cut_substring),
    Function("substring", ("string", "int", "int"), _cut_substring),
    Function("replace", ("string", "string", "string"), _replace),
    Function("replace", ("string", "string", "string", "int"), _replace),
    Function("join", ("list",), _join),
    Function("join", ("list", "string"), _join),
)
