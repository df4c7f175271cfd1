"""Exponential backoff for the writes of each workload.

The backoff belongs to the workload, so it also bounds conflicts: another controller reverts the render, a webhook
undoes it, or the apiserver refuses it. The controller resets the backoff when it requests another render (another
hash), and when it has not written the workload for a long time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.fairness.slots import Lanes, Turn
from fleethook.work.queue import LoopScheduler, Scheduler, Timer, draw_jitter

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


# Pauses of 2, 6, 18, 54 s … make four writes in the first minute, at 0, 2, 8 and 26 s, with room for 20 % of jitter.
# The first retries come within seconds, because a webhook that restarts is unavailable only that long.
_FIRST_SECONDS: Final = 2.0
_FACTOR: Final = 3.0
# An outage of the apiserver or a webhook ends for all workloads at once.
_MAX_OUTAGE_SECONDS: Final = 60.0
# After this long without a write, and twice the last pause, the conflict is over.
_QUIET_SECONDS: Final = 120.0


class _Attempt(NamedTuple):
    digest: str
    """The hash that the write requested."""
    writes: int
    """The number of writes in a row."""
    last: float
    due: float
    reserved: bool = False
    """Whether ``due`` is a reserved turn among the retries of all workloads."""
    conflict: str = ""
    """The identity of a drift that remained after the write, although the apiserver would store the request."""
    unproven: str = ""
    """The identity of a drift that remained, if no dry run could tell whether the apiserver would store the request."""
    problem: str = ""
    """The problem after the write as a message, ``""`` for none."""


class Backoff:
    """The recent writes of each workload."""

    def __init__(self, *, retries_per_second: float, longest: float, jitter: Callable[[], float] = draw_jitter) -> None:
        """Prepare.

        Args:
            retries_per_second: The limit for second and later writes, for all workloads together.
            longest: The longest pause, in seconds.
            jitter: Returns a factor for each pause.
        """
        self._retries: Final = TokenBucket(retries_per_second, burst=max(1, int(retries_per_second)))
        self._longest: Final = longest
        self._jitter: Final = jitter
        self._attempts: Final[dict[ObjectKey, _Attempt]] = {}

    def __len__(self) -> int:
        """Return the number of workloads with recent writes."""
        return len(self._attempts)

    def due(self, key: ObjectKey, digest: str, now: float) -> float:
        """Return the time when a workload may be written: ``now``, or its turn among the retries.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
        """
        attempt = self._find_attempt(key, digest, now)
        if attempt is None:
            return now
        if attempt.due > now or attempt.reserved:
            return max(attempt.due, now)
        turn = self._retries.take(now)
        self._attempts[key] = attempt._replace(due=turn, reserved=True)
        return turn

    def wrote(self, key: ObjectKey, digest: str, now: float, *, conflict: str = "") -> None:
        """Record a write before it is sent.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
            conflict: The identity of a drift although the apiserver would store the request; ``""`` keeps the last one.
        """
        before = self._find_attempt(key, digest, now) or _Attempt(
            digest, 0, now, now, reserved=False, conflict="", unproven="", problem=""
        )
        self._attempts[key] = before._replace(
            writes=before.writes + 1,
            last=now,
            due=now + self._pause(before.writes),
            reserved=False,
            conflict=conflict or before.conflict,
        )

    def ended(
        self, key: ObjectKey, problem: str, *, conflict: str = "", unproven: str = "", outage: bool = False
    ) -> None:
        """Record the result of the last write.

        Args:
            key: The workload.
            problem: The problem as a message, ``""`` for none.
            conflict: The identity of a drift although the apiserver would store the request.
            unproven: The identity of a drift if no dry run could tell whether the apiserver would store the request.
            outage: Whether the apiserver or a webhook did not answer.
        """
        attempt = self._attempts.get(key)
        if attempt is not None:
            due = min(attempt.due, attempt.last + _MAX_OUTAGE_SECONDS * self._jitter()) if outage else attempt.due
            self._attempts[key] = attempt._replace(problem=problem, conflict=conflict, unproven=unproven, due=due)

    def due_of(self, key: ObjectKey) -> float:
        """Return the time when a workload may be written again, minus infinity without a recent write."""
        attempt = self._attempts.get(key)
        return attempt.due if attempt else float("-inf")

    def problem(self, key: ObjectKey) -> str:
        """Return the problem after the last write, ``""`` for none."""
        attempt = self._attempts.get(key)
        return attempt.problem if attempt else ""

    def conflict(self, key: ObjectKey) -> str:
        """Return the drift after the last write that the apiserver would store, ``""`` for none."""
        attempt = self._attempts.get(key)
        return attempt.conflict if attempt else ""

    def unproven(self, key: ObjectKey) -> str:
        """Return the drift after the last write that no dry run could test, ``""`` for none."""
        attempt = self._attempts.get(key)
        return attempt.unproven if attempt else ""

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._attempts.pop(key, None)

    def prune(self, now: float) -> None:
        """Forget the workloads without a write for a long time."""
        for key, attempt in list(self._attempts.items()):
            if self._is_quiet(attempt, now):
                del self._attempts[key]

    def _find_attempt(self, key: ObjectKey, digest: str, now: float) -> _Attempt | None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.digest != digest or self._is_quiet(attempt, now):
            return None
        return attempt

    def _is_quiet(self, attempt: _Attempt, now: float) -> bool:
        return now - attempt.last > max(_QUIET_SECONDS, 2 * (attempt.due - attempt.last))

    def _pause(self, writes: int) -> float:
        return min(self._longest, _FIRST_SECONDS * _FACTOR ** min(writes, 16)) * self._jitter()
