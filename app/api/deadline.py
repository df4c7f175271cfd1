"""How long a caller waits for its answer, as it says in the query of its request (``?timeout=10s``)."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

# What an apiserver gives to admission and storage together (research 2.14), and so the most that anybody waits.
LONGEST_SECONDS: Final = 34.0
# What is kept back to send the answer in, while the caller is still there.
_MARGIN_SECONDS: Final = 0.1
_MARGIN_SHARE: Final = 0.1

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)


# Characters of a query whose seconds are remembered.
_MAX_REMEMBERED: Final = 64


def seconds_of(duration: str) -> float | None:
    """Return a duration as Go writes it (``1m30s``, ``500ms``) in seconds, None if it is none."""
    seconds, at = 0.0, 0
    while at < len(duration):
        part = _PART.match(duration, at)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if duration else None


def budget(query: bytes) -> float:
    """Return the seconds in which a request is to be answered."""
    # An apiserver sends the same few queries all the time; long ones are not kept.
    return _remembered_budget(query) if len(query) <= _MAX_REMEMBERED else _budget(query)


def _budget(query: bytes) -> float:
    asked = seconds_of(parse_qs(query.decode("latin-1")).get("timeout", [""])[-1]) if query else None
    seconds = min(asked or LONGEST_SECONDS, LONGEST_SECONDS)
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)


_remembered_budget: Final = lru_cache(maxsize=256)(_budget)
