"""Regular expressions (upstream: pkg/cel/library/regex.go; cel-go's ``matches``).

All of them are RE2's, as Go's are: evaluated by cel-cpp in an environment of their own, because Python's have no bound
in time. What Kubernetes charges for them is charged first.
"""

import re
from functools import cache
from typing import Final

from cel_expr_python import cel

from app.dispatch.cel.functions import Function
from app.dispatch.cel.run import CURRENT, Unknown, cost_of_regex

_T: Final = cel.Type
_EXTENSIONS: Final = "name: regexes\nextensions:\n- name: optional\n- name: regex\n"

_COST_OF_MATCH: Final = 4

# An escaped character, a quotation, a class, or the opening of a group that captures.
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]|\(\?P?<[A-Za-z0-9_]+>|\((?!\?)", re.DOTALL
)


@cache
def _program(expression: str) -> cel.Expression:
    environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS), variables={"text": _T.STRING, "pattern": _T.STRING}
    )
    return environment.compile(expression)


def _evaluate(expression: str, text: str, pattern: str) -> cel.Value:
    CURRENT.get().charge(cost_of_regex(text, pattern))
    value = _program(expression).eval(data={"text": text, "pattern": pattern})
    if value.type() == _T.ERROR:
        raise ValueError(str(value.value()).partition(": ")[2])
    return value


def _without_groups(pattern: str) -> str:
    """Return a pattern that matches the same and captures nothing: cel-cpp finds what is captured, Go what matches."""
    return _TOKEN.sub(lambda match: "(?:" if match[0].startswith("(") else match[0], pattern)


def _matches(text: str, pattern: str) -> bool:
    return bool(_evaluate("text.matches(pattern)", text, pattern).value())


def _find(text: str, pattern: str) -> str:
    return str(_evaluate("regex.extract(text, pattern).orValue('')", text, _without_groups(pattern)).value())


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    pattern = _without_groups(pattern)
    # There may be as many matches as characters, and each of them is a text here and in cel-cpp.
    CURRENT.get().charge(_COST_OF_MATCH * len(text))
    if _evaluate("regex.extract(text, pattern).hasValue()", "", pattern).value():
        # Go finds the empty text between characters, cel-cpp does not.
        raise Unknown("findAll() with a pattern that matches the empty text")
    found = [str(match.value()) for match in _evaluate("regex.extractAll(text, pattern)", text, pattern).value()]
    return found if limit < 0 else found[:limit]


FUNCTIONS: Final = (
    Function("matches", ("string", "string"), "bool", _matches),
    Function("matches", ("string", "string"), "bool", _matches, member=False),
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), "list<string>", _find_all),
    Function("findAll", ("string", "string", "int"), "list<string>", _find_all),
)
