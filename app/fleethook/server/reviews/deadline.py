"""The time limit that a caller states in the query of its request (``?timeout=10s``)."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

# kube-apiserver's default budget for admission plus storage: the longest any caller waits
# (k8s.io/apiserver pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound).
MAX_SECONDS: Final = 34.0
# Time that is reserved for sending the answer, before the caller leaves.
_MARGIN_SECONDS: Final = 0.1
_MARGIN_SHARE: Final = 0.1

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
# Characters of a query whose seconds are cached.
_MAX_CACHED_QUERY: Final = 64


def parse_duration(duration: str) -> float | None:
    """Return a duration in Go's format (``1m30s``, ``500ms``) in seconds, None if the text has another format."""
    seconds, at = 0.0, 0
    while at < len(duration):
        part = _PART.match(duration, at)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if duration else None


def find_budget(query: bytes) -> float:
    """Return the seconds within which a request has to be answered."""
    # An apiserver always sends the same few queries. Long queries are not cached.
    return _cached_budget(query) if len(query) <= _MAX_CACHED_QUERY else _compute_budget(query)


def _compute_budget(query: bytes) -> float:
    asked = parse_duration(parse_qs(query.decode("latin-1")).get("timeout", [""])[-1]) if query else None
    seconds = min(asked or MAX_SECONDS, MAX_SECONDS)
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)


_cached_budget: Final = lru_cache(maxsize=256)(_compute_budget)
