"""Tests of operators, and of warnings about code that Karmada does not run."""

from collections.abc import Callable

import pytest

from fleethook.engines.interpret.lua.script_expressions import (
    Portability,
)


def warn(*checks: Callable[[Portability], None]) -> list[tuple[int, str]]:
    found = Portability()
    for check in checks:
        check(found)
    return [(one.line, one.text.removeprefix("does not run on Karmada: ")) for one in found.findings()]


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda to: to.field("string.rep", 3), "Karmada refuses string.rep"),
        (lambda to: to.method("gsub", 3), "Karmada refuses string.gsub"),
        (lambda to: to.field("table.unpack", 3), "gopher-lua has no table.unpack: write unpack"),
        (lambda to: to.field("os.getenv", 3), "scripts have only os.time and os.date of the library os"),
        (lambda to: to.literal("'%f[a]'", 3), "gopher-lua's patterns have no %f"),
        (lambda to: to.jump(3), "goto needs Karmada v1.18 or later"),
        (lambda to: to.call("require", "'io'", (5, 6), 3), "Karmada has no module io"),
    ],
)
def test_code_that_karmada_refuses_is_a_warning(check: Callable[[Portability], None], text: str) -> None:
    assert warn(check) == [(3, text)]


@pytest.mark.parametrize(
    "check",
    [
        lambda to: to.field("string.format", 3),
        lambda to: to.field("os.time", 3),
        lambda to: to.method("match", 3),
        lambda to: to.literal("'%a'", 3),
        lambda to: to.call("require", "'kube'", (5, 6), 3),
        lambda to: to.call("require", "", (5, 6), 3),
    ],
)
def test_other_code_has_no_warning(check: Callable[[Portability], None]) -> None:
    assert warn(check) == []


def test_a_match_as_the_last_argument_is_a_warning() -> None:
    text = "tonumber(...match(...)) fails where nothing matches: write tonumber((...match(...)))"
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("tonumber", "", (10, 11), 2)) == [
        (2, text)
    ]
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("tonumber", "", (12, 13), 2)) == []
    assert warn(lambda to: to.call("match", "", (9, 10), 1), lambda to: to.call("print", "", (10, 11), 2)) == []


def test_a_warning_has_its_first_line_and_warnings_are_sorted_by_line() -> None:
    found = warn(lambda to: to.jump(7), lambda to: to.method("rep", 5), lambda to: to.field("string.rep", 9))
    assert found == [(5, "Karmada refuses string.rep"), (7, "goto needs Karmada v1.18 or later")]
