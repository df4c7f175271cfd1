"""A work queue of keys with the rules of client-go's workqueue.

A queued key exists once, and two workers never process the same key at once. A key that is added while it is processed
is queued again afterwards, so no change is missed. Three causes queue a key, and none cancels the others:

- `add`: an input of the key changed. A free worker processes the key at once.
- `add_after`: the key is due at a time; of two times the earlier counts.
- a failure (work returns False) or a conflict (work returns `Again` with ``retry``): the key waits, for its back-off or
  for the seconds of `Again`, and is then queued as a retry.

An `add` does not shorten the back-off of later failures: it causes one more attempt, and only success resets the
count. Never `add` a key because of an event that its own work caused, or the back-off has no effect.

Fresh keys go before retries, and retries occupy half of the workers at most. So a changed key is processed at once even
if many keys fail. Under constant load, every ninth turn is for a retry.

Keys can have lanes, for example their namespaces. Lanes take turns, so that many keys in one lane do not delay others.
"""

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from fleethook.fairness import Lanes, Limits, Slots


class Timer(Protocol):
    """A planned call."""

    def cancel(self) -> None:
        """Cancel the call, unless it was made already."""


class Scheduler(Protocol):
    """A monotonic clock with timers, a subset of ``asyncio.AbstractEventLoop``."""

    def time(self) -> float:
        """Return the time in seconds, from any origin."""

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call ``callback(*args)`` at that time."""


class LoopScheduler:
    """The running event loop, looked up at each call, so that a `WorkQueue` can be created before a loop runs."""

    def time(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call at the loop's time ``when``."""
        return asyncio.get_running_loop().call_at(when, callback, *args)


async def sleep(scheduler: Scheduler, seconds: float) -> None:
    """Sleep for some seconds of the scheduler's clock."""
    over = asyncio.Event()
    timer = scheduler.call_at(scheduler.time() + seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


_log: Final = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

BACKOFF_SECONDS: Final = (1.0, 600.0)
# Fresh keys that may overtake a waiting retry.
MAX_PASSED: Final = 8


class Again(NamedTuple):
    """The outcome of work that succeeded and has to be repeated later."""

    seconds: float
    """Seconds until the repetition."""
    retry: bool
    """Whether the key is queued as a retry, behind fresh keys."""


Outcome = bool | Again
"""True: done. False: failed; the key is retried with back-off."""


def draw_jitter() -> float:
    """Return a random factor around 1, so that keys which failed together are not retried together."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, no secret


class WorkQueue(Generic[Key]):
    """A work queue of keys."""

    def __init__(
        self,
        *,
        backoff: tuple[float, float] = BACKOFF_SECONDS,
        scheduler: Scheduler | None = None,
        jitter: Callable[[], float] = draw_jitter,
        lane: Callable[[Key], Hashable] = lambda _: None,
        limits: Limits | None = None,
    ) -> None:
        """Prepare.

        Args:
            backoff: The first and the longest pause after consecutive failures, in seconds.
            scheduler: The clock; None for the running event loop.
            jitter: Returns a factor for each pause.
            lane: Returns the lane of a key.
            limits: Limits the keys in progress, in total and of each lane; None for no limit.
        """
        self._backoff: Final = backoff
        self._scheduler: Final = scheduler or LoopScheduler()
        self._jitter: Final = jitter
        self._lane: Final = lane
        self._slots: Final = Slots(limits or Limits(sys.maxsize))
        self._fresh: Final = Lanes[Key]()
        self._retries: Final = Lanes[Key]()
        # Keys in progress, and whether each is a retry.
        self._in_progress: Final[dict[Key, bool]] = {}
        self._added_in_progress: Final[set[Key]] = set()
        self._planned: Final[dict[Key, tuple[float, Timer]]] = {}
        self._backoffs: Final[dict[Key, Timer]] = {}
        self._failures: Final[dict[Key, int]] = {}
        self._passed = 0
        self._available: Final = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of keys that wait for a worker. Keys that are due later do not count."""
        return len(self._fresh) + len(self._retries)

    @property
    def idle(self) -> bool:
        """Whether no key waits or is in progress. Keys in back-off or due later do not count."""
        return not self._fresh and not self._retries and not self._in_progress

    def add(self, key: Key) -> None:
        """Queue ``key`` as fresh, because one of its inputs changed."""
        if key in self._in_progress:
            self._added_in_progress.add(key)
        elif not self._fresh.has(lane := self._lane(key), key):
            self._retries.discard(lane, key)
            self._fresh.add(lane, key)
            self._available.set()

    def add_retry(self, key: Key) -> None:
        """Queue ``key`` as a retry, behind all fresh keys.

        If it is in progress, it is queued as fresh afterwards: its work may have read the state too early.
        """
        if key in self._in_progress:
            self._added_in_progress.add(key)
        elif not self._fresh.has(lane := self._lane(key), key) and not self._retries.has(lane, key):
            self._retries.add(lane, key)
            self._available.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue ``key`` as fresh after some seconds, or earlier if it is planned earlier already."""
        when = self._scheduler.time() + seconds
        planned = self._planned.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._planned[key] = (when, self._scheduler.call_at(when, self._due, key))

    def take(self, *, max_retrying: int) -> Key | None:
        """Return the next key, which is in progress until `finish`; None if no key may be processed now.

        Args:
            max_retrying: The maximum number of retries in progress.
        """
        retry_may = bool(self._retries) and sum(self._in_progress.values()) < max_retrying
        retry = retry_may and self._passed >= MAX_PASSED
        key = (self._retries if retry else self._fresh).take(self._slots.allows)
        if key is None and retry_may:
            retry = not retry
            key = (self._retries if retry else self._fresh).take(self._slots.allows)
        if key is None:
            return None
        self._passed = 0 if retry else self._passed + retry_may
        self._in_progress[key] = retry
        self._slots.take(self._lane(key))
        # This attempt is the retry of a former failure. Its outcome decides about the next pause.
        self._stop_backoff(key)
        return key

    def finish(self, key: Key, outcome: Outcome) -> None:
        """Record the outcome of a key in progress.

        Args:
            key: The key.
            outcome: The outcome of its work.
        """
        del self._in_progress[key]
        self._slots.release(self._lane(key))
        if outcome is False:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            least, most = self._backoff
            self._retry_in(key, min(most, least * 2 ** min(failures, 32)) * self._jitter())
        else:
            self._failures.pop(key, None)
        if isinstance(outcome, Again):
            (self._retry_in if outcome.retry else self.add_after)(key, outcome.seconds)
        if key in self._added_in_progress:
            self._added_in_progress.remove(key)
            self.add(key)
        self._available.set()

    async def run(self, work: Callable[[Key], Awaitable[Outcome]], *, workers: int) -> None:
        """Process keys until cancelled.

        Args:
            work: Processes a key. An exception counts as a failure.
            workers: The number of keys that are processed concurrently.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._worker(work, max_retrying=max(1, workers // 2)))
        finally:
            for timer in (*(timer for _, timer in self._planned.values()), *self._backoffs.values()):
                timer.cancel()

    async def _worker(self, work: Callable[[Key], Awaitable[Outcome]], *, max_retrying: int) -> NoReturn:
        while True:
            while (key := self.take(max_retrying=max_retrying)) is None:
                self._available.clear()
                await self._available.wait()
            outcome: Outcome = False
            try:
                outcome = await work(key)
            except Exception:  # noqa: BLE001 - a failing key must not stop the worker
                _log.exception("processing %s failed", key)
            self.finish(key, outcome)

    def _due(self, key: Key) -> None:
        del self._planned[key]
        self.add(key)

    def _retry_in(self, key: Key, seconds: float) -> None:
        self._stop_backoff(key)
        when = self._scheduler.time() + seconds
        self._backoffs[key] = self._scheduler.call_at(when, self._backoff_over, key)

    def _backoff_over(self, key: Key) -> None:
        del self._backoffs[key]
        self.add_retry(key)

    def _stop_backoff(self, key: Key) -> None:
        if (timer := self._backoffs.pop(key, None)) is not None:
            timer.cancel()
