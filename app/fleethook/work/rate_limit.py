"""Limit the rate and the concurrency of calls, and share both fairly between callers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Final

from fleethook.fairness.slots import Lanes, Turn
from fleethook.work.scheduler import LoopScheduler, Scheduler, Timer

# Times are floats: a call that is early by less than this is on time.
_ROUNDING_SECONDS: Final = 1e-6


class TokenBucket:
    """Limits calls to a rate per second and a burst."""

    def __init__(self, per_second: float, *, burst: int) -> None:
        """Allow ``per_second`` calls on average and ``burst`` calls at once."""
        self._interval: Final = 1.0 / per_second
        self._slack: Final = burst * self._interval
        self._due = float("-inf")

    def next(self, now: float) -> float:
        """Return the time of the next call, ``now`` or later, without taking it."""
        due = max(self._due, now - self._slack) + self._interval
        return due if due - now > _ROUNDING_SECONDS else now

    def take(self, now: float) -> float:
        """Reserve the next call and return its time; calls that are reserved in advance follow each other."""
        when = self.next(now)
        self._due = max(self._due, now - self._slack) + self._interval
        return when


class RateLimiter:
    """Grants turns within a rate and a concurrency, to each lane in rotation (`fleethook.fairness.slots`)."""

    def __init__(self, per_second: float, *, at_once: int, scheduler: Scheduler | None = None) -> None:
        """Prepare.

        Args:
            per_second: Turns per second on average.
            at_once: The maximum number of concurrent turns, and of turns in a burst.
            scheduler: The clock; None for the running event loop.
        """
        self._bucket: Final = TokenBucket(per_second, burst=at_once)
        self._at_once: Final = at_once
        self._scheduler: Final = scheduler or LoopScheduler()
        self._queue: Final = Lanes[Turn]()
        self._running = 0
        self._timer: Timer | None = None

    @contextlib.asynccontextmanager
    async def turn(self, lane: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and hold it while the context is open."""
        given: Turn = asyncio.get_running_loop().create_future()
        self._queue.add(lane, given)
        self._grant()
        try:
            await given
        except asyncio.CancelledError:
            if given.cancelled():
                self._queue.discard(lane, given)
            else:
                self._release()
            raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._running -= 1
        self._grant()

    def _on_time(self) -> None:
        self._timer = None
        self._grant()

    def _grant(self) -> None:
        """Grant as many turns as the limits allow now, and plan the next grant."""
        now = self._scheduler.time()
        while self._queue and self._running < self._at_once:
            when = self._bucket.next(now)
            if when > now:
                if self._timer is None:
                    self._timer = self._scheduler.call_at(when, self._on_time)
                return
            given = self._queue.take()
            if given is not None and not given.cancelled():
                self._bucket.take(now)
                self._running += 1
                given.set_result(None)
