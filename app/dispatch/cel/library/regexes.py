"""Regular expressions (k8s.io/apiserver/pkg/cel/library/regex.go, cel-go's ``matches``).

cel-cpp evaluates them with RE2, whose syntax and linear time are those of Go. Python's module re can take exponential
time.
"""

import re
from typing import Final

from app.dispatch.cel.cel_cpp import delegate
from app.dispatch.cel.evaluation import UnsupportedFunctionError, spend
from app.dispatch.cel.functions import Function

# A match takes the memory of this many list elements, in Python and in cel-cpp together.
_WORK_OF_MATCH: Final = 6

# A quotation, an escaped character, a character class, or the start of a capturing group.
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]|\(\?P?<[A-Za-z0-9_]+>|\((?!\?)", re.DOTALL
)


def _remove_groups(pattern: str) -> str:
    """Make all groups non-capturing: cel-cpp returns the captured text, Go's Find returns the match."""
    return _TOKEN.sub(lambda match: "(?:" if match[0].startswith("(") else match[0], pattern)


_matches: Final = delegate("a.matches(b)")
_extract: Final = delegate("regex.extract(a, b).orValue('')")
_extract_all: Final = delegate("regex.extractAll(a, b)")
_takes_empty: Final = delegate("regex.extract('', a).hasValue()")


def _find(text: str, pattern: str) -> str:
    return str(_extract(text, _remove_groups(pattern)))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    pattern = _remove_groups(pattern)
    # A pattern can match each character.
    spend(_WORK_OF_MATCH * len(text))
    if _takes_empty(pattern):
        # Go finds empty matches between characters, cel-cpp does not.
        raise UnsupportedFunctionError("findAll() with a pattern that matches the empty text")
    found = [str(getattr(match, "value", lambda m=match: m)()) for match in _extract_all(text, pattern)]
    return found if limit < 0 else found[:limit]


FUNCTIONS: Final = (
    Function("matches", ("string", "string"), "bool", _matches),
    Function("matches", ("string", "string"), "bool", _matches, member=False),
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), "list<string>", _find_all),
    Function("findAll", ("string", "string", "int"), "list<string>", _find_all),
)
