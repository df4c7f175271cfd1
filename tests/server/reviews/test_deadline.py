"""The time limit that a caller states in `?timeout=`."""

import pytest

from fleethook.server.reviews.deadline import MAX_SECONDS, find_budget, parse_duration


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0), ("", None), ("10", None), ("s", None),
     ("1s ", None), ("-1s", None), ("9" * 10 + "s", None)],
)  # fmt: skip
def test_durations_are_parsed_in_gos_format(duration: str, seconds: float | None) -> None:
    assert parse_duration(duration) == seconds


@pytest.mark.parametrize(
    ("query", "seconds"),
    [(b"timeout=10s", 9.9), (b"timeout=500ms", 0.45), (b"timeout=90s", MAX_SECONDS - 0.1), (b"", MAX_SECONDS - 0.1),
     (b"timeout=x", MAX_SECONDS - 0.1), (b"a=b&timeout=1s&timeout=2s", 1.9)],
)  # fmt: skip
def test_a_part_of_the_callers_time_is_reserved_for_the_answer(query: bytes, seconds: float) -> None:
    assert find_budget(query) == pytest.approx(seconds)
