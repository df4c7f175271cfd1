from datetime import UTC, datetime, timedelta

import pytest

from app.records.since import parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1h30m", 5400), ("7d", 604800), ("1d2h3m4s", 93784), ("0s", 0)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "h", "1m1h", "-1h", "1.5h", "2026-11-22T10:00:00Z", "\u0661h"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert parse_duration(text) is None


def test_times_need_an_offset() -> None:
    assert parse_time("2026-11-22T11:00:00+01:00") == datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert parse_time("2026-11-22T10:00:00.000001Z") == datetime(2026, 11, 22, 10, 0, 0, 1, tzinfo=UTC)
    assert parse_time("2026-11-22T10:00:00") is None
    assert parse_time("yesterday") is None
