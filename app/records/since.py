"""The earliest time of the reviews to replay: a time, or a duration before the newest record."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_DURATION: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta | None:
    """Return a duration such as ``90m``, ``1h30m`` or ``7d``, None if the text is none."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_time(text: str) -> datetime | None:
    """Return an RFC 3339 time, None if the text is none. A time without offset is none, because it is ambiguous."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.astimezone(UTC) if time.tzinfo is not None else None
