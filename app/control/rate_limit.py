"""Limits on calls: so many a second, so many at a time, shared fairly between those who call."""

import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Final

from app.control.fair_queue import FairQueue, wait_for_turn
from app.control.scheduler import LoopScheduler, Scheduler, Timer

# Times are floats: what is early by less than this is in time.
_ROUNDING_SECONDS: Final = 1e-6


class TokenBucket:
    """Not more than so many calls a second in the long run, and not more than a burst at once."""

    def __init__(self, per_second: float, *, burst: int) -> None:
        """Allow ``per_second`` in the long run and ``burst`` at once."""
        self._interval: Final = 1.0 / per_second
        self._slack: Final = burst * self._interval
        self._due = float("-inf")

    def next(self, now: float) -> float:
        """Return the time of the next call, ``now`` or later, without taking it."""
        due = max(self._due, now - self._slack) + self._interval
        return due if due - now > _ROUNDING_SECONDS else now

    def take(self, now: float) -> float:
        """Take the next call and return its time; calls that are taken ahead of time follow each other."""
        when = self.next(now)
        self._due = max(self._due, now - self._slack) + self._interval
        return when


class RateLimiter:
    """Gives turns: so many a second, so many at a time, and to each lane in rotation.

    A lane is a caller among whom turns are shared: one that asks for 10,000 turns does not hold up another that asks
    for one.
    """

    def __init__(self, per_second: float, *, at_once: int, scheduler: Scheduler | None = None) -> None:
        """Prepare.

        Args:
            per_second: Turns a second in the long run.
            at_once: How many turns may be under way, and may begin in one burst.
            scheduler: The clock; None for the running event loop.
        """
        self._bucket: Final = TokenBucket(per_second, burst=at_once)
        self._at_once: Final = at_once
        self._scheduler: Final = scheduler or LoopScheduler()
        self._queue: Final = FairQueue()
        self._running = 0
        self._timer: Timer | None = None

    @contextlib.asynccontextmanager
    async def turn(self, lane: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and hold it while the context is open."""
        given = self._queue.join(lane)
        self._give()
        await wait_for_turn(given, give_back=self._release)
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._running -= 1
        self._give()

    def _on_time(self) -> None:
        self._timer = None
        self._give()

    def _give(self) -> None:
        """Give as many turns as may be given now, and come back when the next one may."""
        now = self._scheduler.time()
        while self._queue and self._running < self._at_once:
            when = self._bucket.next(now)
            if when > now:
                if self._timer is None:
                    self._timer = self._scheduler.call_at(when, self._on_time)
                return
            if (given := self._queue.next()) is not None:
                self._bucket.take(now)
                self._running += 1
                given.set_result(None)
