"""Timestamps and durations with nanoseconds, as Go's package time parses, computes and prints them."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, NamedTuple
from zoneinfo import ZoneInfo

from fleethook.cel.values.values_and_overloads import MAX_INT, MIN_INT

SECOND: Final = 10**9
_MILLISECOND: Final = 10**6
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# cel-go: common/types/timestamp.go, the seconds of 0001-01-01T00:00:00Z and of 9999-12-31T23:59:59Z.
_MIN_SECONDS: Final = -62135596800
_MAX_SECONDS: Final = 253402300799
_UNITS: Final = {
    "ns": 1, "us": 1000, "\u00b5s": 1000, "\u03bcs": 1000, "ms": _MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)", re.ASCII)
# Go's layout time.RFC3339: an hour may have one digit, a fraction may start with a comma.
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
# The calendar repeats after 400 years.
_ERA: Final = 146097 * 86400
_DAYS: Final = 2 * 86400
_MAX_ZONE_HOURS: Final = 24
_MAX_ZONE_MINUTES: Final = 60


class TimeRangeError(OverflowError):
    """A timestamp or a duration is out of range."""


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    kind: ClassVar[str] = "duration"
    nanos: int

    def __bool__(self) -> bool:
        return self.nanos != 0


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A point in time: nanoseconds since 1970, and the offset of its text from UTC in seconds."""

    kind: ClassVar[str] = "timestamp"
    nanos: int
    offset: int = field(default=0, compare=False)

    @property
    def seconds(self) -> int:
        """Whole seconds since 1970."""
        return self.nanos // SECOND

    def __bool__(self) -> bool:
        # Go: Time.IsZero.
        return self.nanos != _MIN_SECONDS * SECOND


def make_duration(nanos: int) -> Duration:
    """Return a duration; raises TimeRangeError outside 64 bits."""
    if not MIN_INT <= nanos <= MAX_INT:
        raise TimeRangeError("integer overflow")
    return Duration(nanos)


def make_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp; raises TimeRangeError outside the years 1 to 9999."""
    if not _MIN_SECONDS <= nanos // SECOND <= _MAX_SECONDS:
        raise TimeRangeError("timestamp overflow")
    return Timestamp(nanos, offset)


def parse_duration(text: str) -> Duration:
    """Return the duration of a text such as ``1h30m`` (Go: time.ParseDuration).

    Raises:
        ValueError: The text is no duration.
    """
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest) or not position:
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]) or part[3] not in _UNITS:
            raise _reject_conversion("google.protobuf.Duration")
        total += _measure_part(part[1], part[2] or "", _UNITS[part[3]])
        position = part.end()
        if total > 2**63:
            raise _reject_conversion("google.protobuf.Duration")
    if total > MAX_INT and not negative:
        raise _reject_conversion("google.protobuf.Duration")
    return Duration(-total if negative else total)


def _measure_part(whole: str, fraction: str, unit: int) -> int:
    value = int(whole or "0") if len(whole) <= 19 else 2**63 + 1
    if value > 2**63 // unit:
        raise _reject_conversion("google.protobuf.Duration")
    value *= unit
    if fraction:
        # Go ignores the digits of a fraction that do not fit into 63 bits.
        digits = fraction[:18]
        value += int(float(digits) * (float(unit) / 10.0 ** len(digits)))
    return value


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp of a text (Go: time.Parse with time.RFC3339).

    Raises:
        ValueError: The text is no timestamp.
        TimeRangeError: It is out of range.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _reject_conversion("google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[position]) for position in range(1, 7))
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    if zone_hours > _MAX_ZONE_HOURS or zone_minutes > _MAX_ZONE_MINUTES:
        raise _reject_conversion("google.protobuf.Timestamp")
    try:
        # A day of year 0 has no datetime, so the range check follows with a year of the same form.
        base = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _reject_conversion("google.protobuf.Timestamp") from None
    seconds = (base - _EPOCH) // timedelta(seconds=1) - (0 if year else _ERA)
    offset = (zone_hours * 60 + zone_minutes) * 60 * (-1 if match[8] == "-" else 1)
    nanos = int((match[7] or "0")[:9].ljust(9, "0"))
    return make_timestamp((seconds - offset) * SECOND + nanos, offset)


def _reject_conversion(type_: str) -> ValueError:
    return ValueError(f"type conversion error from 'string' to '{type_}'")


def format_timestamp(value: Timestamp) -> str:
    """Return the text of a timestamp (Go: time.RFC3339Nano)."""
    year, shown = _shift(value.nanos, value.offset)
    nanos = value.nanos % SECOND
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{year:04d}-{shown:%m-%dT%H:%M:%S}{fraction}{_format_offset(value.offset)}"


class LocalTime(NamedTuple):
    """A date and a time of day. If Python has no date in the year, the year of ``time`` is 400 years away."""

    year: int
    time: datetime


def _shift(nanos: int, offset: int) -> LocalTime:
    """Return the local time at an offset in seconds. The local time of an instant in year 1 may be in year 0."""
    seconds, rest = divmod(nanos, SECOND)
    seconds += offset
    era = -1 if seconds < _MIN_SECONDS else 1 if seconds > _MAX_SECONDS else 0
    time = _EPOCH + timedelta(seconds=seconds - era * _ERA, microseconds=rest // 1000)
    return LocalTime(time.year + 400 * era, time)


def _format_offset(offset: int) -> str:
    if not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def measure(value: Duration, unit: int) -> float:
    """Return a duration in a unit of nanoseconds, as Go's Hours, Minutes and Seconds compute it."""
    sign = -1 if value.nanos < 0 else 1
    whole, rest = divmod(abs(value.nanos), unit)
    return float(sign * whole) + float(sign * rest) / float(unit)


def add_duration(time: Timestamp, span: Duration) -> Timestamp:
    """Return a timestamp plus a duration; raises TimeRangeError."""
    return make_timestamp(time.nanos + span.nanos, time.offset)


def subtract_times(left: Timestamp, right: Timestamp) -> Duration:
    """Return the duration between two timestamps; raises TimeRangeError, also if only the whole seconds overflow."""
    make_duration((left.nanos // SECOND - right.nanos // SECOND) * SECOND)
    return make_duration(left.nanos - right.nanos)


def find_local_time(time: Timestamp, zone: str | None) -> LocalTime:
    """Return the date and the time of day in a zone.

    Args:
        time: The instant.
        zone: The name of a zone, or an offset such as ``-08:00``; None for UTC.

    Raises:
        ValueError: There is no such zone.
    """
    return _shift(time.nanos, 0 if zone is None else _find_offset(time, zone))


def _find_offset(time: Timestamp, zone: str) -> int:
    """Return the offset of a zone at an instant, in seconds."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        return 60 * (parse_decimal(hours) * 60 + parse_decimal(minutes) * (-1 if zone.startswith("-") else 1))
    # Local is UTC in a container; "" is UTC in Go.
    if zone in {"", "UTC", "Local"}:
        return 0
    try:
        info = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"unknown time zone {zone}") from None
    # No zone changes at the limits of the calendar, where Python cannot convert.
    instant = min(max(time.seconds, _MIN_SECONDS + _DAYS), _MAX_SECONDS - _DAYS)
    offset = (_EPOCH + timedelta(seconds=instant)).astimezone(info).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def parse_decimal(text: str) -> int:
    """Return a number as Go's strconv.Atoi reads it; raises ValueError."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'strconv.Atoi: parsing "{text[:20]}": invalid syntax')
    return int(text)
