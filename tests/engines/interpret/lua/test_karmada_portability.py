"""Tests of operators, and of warnings about code that Karmada does not run."""

from collections.abc import Callable

from fleethook.engines.interpret.lua.karmada_portability import Portability


def warn(*checks: Callable[[Portability], None]) -> list[tuple[int, str]]:
    found = Portability()
    for check in checks:
        check(found)
    return [(one.line, one.text.removeprefix("does not run on Karmada: ")) for one in found.findings()]


def test_a_warning_has_its_first_line_and_warnings_are_sorted_by_line() -> None:
    found = warn(lambda to: to.jump(7), lambda to: to.method("rep", 5), lambda to: to.field("string.rep", 9))
    assert found == [(5, "Karmada refuses string.rep"), (7, "goto needs Karmada v1.18 or later")]
