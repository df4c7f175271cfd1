"""A work queue of keys with the rules of client-go's workqueue.

A queued key exists once, and two workers never process the same key at once. A key that is added while it is processed
is queued again afterwards, so no change is missed. Three causes queue a key. None cancels the others, and processing a
key ends its pending retry:

- `add`: an input of the key changed. A free worker processes the key at once.
- `add_after`: the key is due at a time; of two times the earlier counts.
- a failure (work returns False) or a conflict (work returns `Again` with ``retry``): the key waits, for its back-off or
  for the seconds of `Again`, and is then queued as a retry.

An `add` does not shorten the back-off of later failures: it causes one more attempt, and only success resets the
count. Never `add` a key because of an event that its own work caused, or the back-off has no effect.

Fresh keys and retries share the workers as consumers do (`fleethook.fair_limits`), so a changed key is processed at
once even if many keys fail. Keys can have consumers of their own, for example their namespaces: many keys of one do not
delay those of another.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from fleethook.fair_limits import CallLimit, FairQueue


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
WORKERS: Final = 16
"""Keys in progress at a time. Fresh keys alone have half of them, as have retries alone."""


class Again(NamedTuple):
    """The outcome of work that succeeded and has to be repeated later."""

    seconds: float
    """Seconds until the repetition."""
    retry: bool
    """Whether the key is queued as a retry."""


Outcome = bool | Again
"""True: done. False: failed; the key is retried with back-off."""


_RETRY: Final = " (retry)"
"""The suffix of the consumer of retries."""


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
        consumer: Callable[[Key], str] = lambda _: "",
        workers: int = WORKERS,
    ) -> None:
        """Prepare.

        Args:
            backoff: The first and the longest pause after consecutive failures, in seconds.
            scheduler: The clock; None for the running event loop.
            jitter: Returns a factor for each pause.
            consumer: Returns the consumer of a key.
            workers: The number of keys that are processed at a time.
        """
        self._backoff: Final = backoff
        self._scheduler: Final = scheduler or LoopScheduler()
        self._jitter: Final = jitter
        self._consumer: Final = consumer
        self._limit: Final = CallLimit(workers)
        self._waiting: Final = FairQueue[Key]()
        # Keys in progress with their consumers.
        self._in_progress: Final[dict[Key, str]] = {}
        self._added_in_progress: Final[set[Key]] = set()
        self._planned: Final[dict[Key, tuple[float, Timer]]] = {}
        self._backoffs: Final[dict[Key, Timer]] = {}
        self._failures: Final[dict[Key, int]] = {}
        self._available: Final = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of keys that wait for a worker. Keys that are due later do not count."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether no key waits or is in progress. Keys in back-off or due later do not count."""
        return not self._waiting and not self._in_progress

    def add(self, key: Key) -> None:
        """Queue ``key`` as fresh, because one of its inputs changed."""
        if key in self._in_progress:
            self._added_in_progress.add(key)
        else:
            fresh = self._consumer(key)
            self._waiting.discard(fresh + _RETRY, key)
            self._waiting.add(fresh, key)
            self._available.set()

    def add_retry(self, key: Key) -> None:
        """Queue ``key`` as a retry, unless it is queued.

        If it is in progress, it is queued as fresh afterwards: its work may have read the state too early.
        """
        if key in self._in_progress:
            self._added_in_progress.add(key)
        elif not self._waiting.has(fresh := self._consumer(key), key):
            self._waiting.add(fresh + _RETRY, key)
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

    def take(self) -> Key | None:
        """Return the next key, which is in progress until `finish`; None if no key may be processed now."""
        found = self._waiting.take(self._limit.allows)
        if found is None:
            return None
        consumer, key = found
        self._limit.take(consumer)
        self._in_progress[key] = consumer
        # This attempt is the retry of a former failure. Its outcome decides about the next pause.
        self._stop_backoff(key)
        return key

    def finish(self, key: Key, outcome: Outcome) -> None:
        """Record the outcome of a key in progress.

        Args:
            key: The key.
            outcome: The outcome of its work.
        """
        self._limit.release(self._in_progress.pop(key))
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

    async def run(self, work: Callable[[Key], Awaitable[Outcome]]) -> None:
        """Process keys until cancelled.

        Args:
            work: Processes a key. An exception counts as a failure.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._limit.limit):
                    tasks.create_task(self._process(work))
        finally:
            for timer in (*(timer for _, timer in self._planned.values()), *self._backoffs.values()):
                timer.cancel()

    async def _process(self, work: Callable[[Key], Awaitable[Outcome]]) -> NoReturn:
        while True:
            while (key := self.take()) is None:
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
