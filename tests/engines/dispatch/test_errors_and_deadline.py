"""The errors of dispatch have the texts and codes of an apiserver."""

import pytest

from fleethook.engines.dispatch.errors_and_deadline import (
    BUDGET_SECONDS,
    find_budget,
    forbidden,
    internal,
    parse_duration,
)
from fleethook.model.admission import StatusDetails


def test_forbidden_names_the_resource_and_its_group() -> None:
    error = forbidden("widgets.example.org", "b", "no")
    assert error.status.details == StatusDetails(name="b", group="example.org", kind="widgets")
    assert (error.status.code, str(error)) == (403, 'widgets.example.org "b" is forbidden: no')


def test_internal_errors_have_the_text_as_a_cause() -> None:
    error = internal("broken")
    assert error.status.details is not None
    assert [cause.message for cause in error.status.details.causes] == ["broken"]
    assert str(error) == "Internal error occurred: broken"


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0), ("", None), ("10", None), ("s", None),
     ("1s ", None), ("-1s", None), ("9" * 10 + "s", None)],
)  # fmt: skip
def test_durations_are_parsed_in_gos_format(duration: str, seconds: float | None) -> None:
    assert parse_duration(duration) == seconds


@pytest.mark.parametrize(
    ("query", "seconds"),
    [(b"timeout=10s", 9.9), (b"timeout=500ms", 0.45), (b"timeout=90s", BUDGET_SECONDS - 0.1), (b"", BUDGET_SECONDS - 0.1),
     (b"timeout=x", BUDGET_SECONDS - 0.1), (b"a=b&timeout=1s&timeout=2s", 1.9)],
)  # fmt: skip
def test_a_part_of_the_callers_time_is_reserved_for_the_answer(query: bytes, seconds: float) -> None:
    assert find_budget(query) == pytest.approx(seconds)
