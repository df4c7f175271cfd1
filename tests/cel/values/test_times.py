import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cel.values.times import (
    SECOND,
    Duration,
    TimeRangeError,
    Timestamp,
    add_duration,
    find_local_time,
    format_timestamp,
    make_duration,
    make_timestamp,
    measure,
    parse_decimal,
    parse_duration,
    parse_timestamp,
    subtract_times,
)

FIRST, LAST = -62135596800 * SECOND, 253402300799 * SECOND


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1h30m", 5400 * SECOND),
        ("-1.5s", -1_500_000_000),
        ("+1us2ns", 1002),
        ("1\u00b5s1\u03bcs", 2000),
        ("0", 0),
        (".5m", 30 * SECOND),
        ("2562047h47m16.854775807s", 2**63 - 1),
        ("-2562047h47m16.854775808s", -(2**63)),
        ("0.3333333333333333333h", 1_200_000_000_000),
    ],
)
def test_durations_are_read_as_in_go(text: str, nanos: int) -> None:
    assert abs(parse_duration(text).nanos - nanos) <= (1 if "333" in text else 0)


@pytest.mark.parametrize(
    "text",
    ["", "1", "1d", "s", ".s", "1 s", "- 1s", "1e3s", "2562047h47m16.854775808s", "1s ", "\uff11s", "9" * 30 + "s"],
)
def test_other_durations_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="from 'string'"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2023-01-01T00:00:00Z", "2023-01-01T00:00:00Z"),
        ("2023-01-01T5:00:00.120Z", "2023-01-01T05:00:00.12Z"),
        ("2023-01-01T00:00:00,5+01:00", "2023-01-01T00:00:00.5+01:00"),
        ("2023-01-01T00:00:00.1234567891-23:59", "2023-01-01T00:00:00.123456789-23:59"),
        ("2023-01-01T00:00:00+24:60", "2023-01-01T00:00:00+25:00"),
        ("0000-12-31T23:59:59-01:00", "0000-12-31T23:59:59-01:00"),
    ],
)
def test_timestamps_are_read_and_written_as_in_go(text: str, shown: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2023-01-01",
        "2023-02-30T00:00:00Z",
        "2023-01-01t00:00:00z",
        "2023-01-01T24:00:00Z",
        "2023-01-01T00:00:60Z",
        "2023-01-01T00:00:00+25:00",
        "0000-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_other_timestamps_are_errors(text: str) -> None:
    with pytest.raises((ValueError, TimeRangeError)):
        parse_timestamp(text)


@given(st.integers(FIRST, LAST), st.integers(-1439, 1439))
def test_a_written_timestamp_reads_as_the_same(nanos: int, minutes: int) -> None:
    value = make_timestamp(nanos, minutes * 60)
    text = format_timestamp(value)
    if len(text.partition("-")[0]) == 4:
        assert parse_timestamp(text) == value


def test_arithmetic_stays_in_range() -> None:
    start = parse_timestamp("2023-01-01T00:00:00.000000001+01:00")
    moved = add_duration(start, parse_duration("-2ns"))
    assert format_timestamp(moved) == "2022-12-31T23:59:59.999999999+01:00"
    assert subtract_times(start, moved) == Duration(2)
    with pytest.raises(TimeRangeError, match="timestamp overflow"):
        add_duration(make_timestamp(LAST), Duration(SECOND))
    with pytest.raises(TimeRangeError, match="integer overflow"):
        subtract_times(make_timestamp(LAST), make_timestamp(FIRST))
    with pytest.raises(TimeRangeError, match="integer overflow"):
        make_duration(2**63)
    assert not Duration(0)
    assert Timestamp(0)
    assert not make_timestamp(FIRST)


@pytest.mark.parametrize(
    ("zone", "hour", "year"),
    [
        (None, 23, 9999),
        ("UTC", 23, 9999),
        ("Local", 23, 9999),
        ("", 23, 9999),
        ("+01:00", 0, 10000),
        ("-00:30", 23, 9999),
        ("Asia/Tokyo", 8, 10000),
        ("100:99", 5, 10000),
    ],
)
def test_the_local_time_in_a_zone(zone: str | None, hour: int, year: int) -> None:
    found = find_local_time(parse_timestamp("9999-12-31T23:30:00Z"), zone)
    assert (found.time.hour, found.year) == (hour, year)


@pytest.mark.parametrize("zone", ["Mars/Base", "/etc/passwd", "../x", "1_0:00", "a:b", ":"])
def test_an_unknown_zone_is_an_error(zone: str) -> None:
    with pytest.raises(ValueError, match=r"unknown time zone|invalid syntax"):
        find_local_time(Timestamp(0), zone)


def test_units_of_a_duration_are_those_of_go() -> None:
    assert measure(Duration(-1_500_000_000), SECOND) == -1.5
    assert parse_decimal("-08") == -8
