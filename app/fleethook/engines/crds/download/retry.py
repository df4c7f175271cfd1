"""The retries of a download: the number of attempts, the delays between them, and the time limits."""

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from fleethook.engines.crds.crds_errors import CRDsError, Exit

ATTEMPTS: Final = 4
"""Attempts for one URL before the next mirror."""
CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30.0
"""Limit of a read's wait for the next byte."""
_BASE_SECONDS: Final = 1.0
_CAP_SECONDS: Final = 30.0
_MAX_RETRY_AFTER: Final = 120.0
"""If an origin asks for a longer pause, the download sends it no more requests."""
RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Timing(NamedTuple):
    """Clock, sleep and jitter; tests replace them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    random: Callable[[float, float], float] = random.uniform
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class AttemptError(CRDsError):
    """A failed attempt.

    Attributes:
        again: Whether to retry the same URL within this download.
        after: Seconds of the origin's Retry-After; None without one.
    """

    def __init__(
        self, exit_code: Exit, text: str, *, transient: bool = False, again: bool = False, after: float | None = None
    ) -> None:
        super().__init__(exit_code, text, transient=transient)
        self.again: Final = again
        self.after: Final = after


def choose_delay(failure: AttemptError, attempt: int, random: Callable[[float, float], float]) -> float | None:
    """Return the seconds to wait before the next attempt; None to stop.

    Full jitter: a random time between 0 and a bound that doubles from 1 s to 30 s, so that a fleet of operators does
    not retry at the same moment. A Retry-After of up to 120 s takes precedence.

    Args:
        failure: The error of the attempt.
        attempt: Number of the attempt, from 1.
        random: A function like ``random.uniform``.
    """
    if not failure.again or attempt >= ATTEMPTS:
        return None
    if failure.after is not None:
        return failure.after if failure.after <= _MAX_RETRY_AFTER else None
    return random(0.0, min(_CAP_SECONDS, _BASE_SECONDS * 2 ** (attempt - 1)))


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds of a Retry-After, a number or a date (RFC 9110, 10.2.3); None without a valid one."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        at = parsedate_to_datetime(value)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - now).total_seconds())
    except (ValueError, OverflowError):
        return None
