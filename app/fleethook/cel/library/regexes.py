"""Regular expressions (k8s.io/apiserver/pkg/cel/library/regex.go, cel-go's ``matches``).

RE2 has the syntax and the linear time of Go's package regexp. Python's module re can take exponential time.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from fleethook.cel.evaluation import spend
from fleethook.cel.values.values import Function

# A match takes the memory of this many list elements.
_WORK_OF_MATCH: Final = 6
_MAX_COMPILED: Final = 1_000
# Go: regexp/syntax, ErrorCode.
_PROBLEMS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
# A quotation, an escaped character, or \C, which matches a byte in RE2 and is invalid in Go.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


@lru_cache(maxsize=_MAX_COMPILED)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises:
        ValueError: The pattern is invalid in Go.
    """
    import re2  # noqa: PLC0415 - takes 3 MB, and few conditions have regular expressions

    options: Any = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        raise ValueError(f"error parsing regexp: {_translate(error.args[0].decode(errors='replace'))}") from None
    except UnicodeEncodeError:
        raise ValueError("a text is not valid UTF-8") from None
    if any(token[0] == "\\C" for token in _TOKEN.finditer(pattern)):
        raise ValueError(r"error parsing regexp: invalid escape sequence: `\C`")
    return compiled


def _translate(text: str) -> str:
    """Return Go's text for an error of RE2."""
    problem, colon, part = text.partition(": ")
    return f"{_PROBLEMS.get(problem, problem)}: `{part}`" if colon else _PROBLEMS.get(problem, problem)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = compile_pattern(pattern).search(text)
    return "" if found is None else str(found.group())


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled = compile_pattern(pattern)
    # A pattern can match each character.
    spend(_WORK_OF_MATCH * len(text))
    found: list[str] = []
    for one in _list_matches(compiled, text):
        if 0 <= limit <= len(found):
            break
        found.append(one)
    return found


def _list_matches(compiled: Any, text: str) -> Iterator[str]:
    """Yield the matches that do not overlap. As in Go, skip an empty match directly after another match."""
    former = -1
    for found in compiled.finditer(text):
        start, end = found.span()
        if start == end == former:
            continue
        former = end
        yield str(found.group())


REGEX_FUNCTIONS: Final = (
    Function("matches", ("string", "string"), _matches),
    Function("find", ("string", "string"), _find),
    Function("findAll", ("string", "string"), _find_all),
    Function("findAll", ("string", "string", "int"), _find_all),
)
