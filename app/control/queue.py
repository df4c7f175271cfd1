"""A queue of keys to work on: each key once, never twice at a time, again after a growing pause where work failed.

The rules are those of client-go's workqueue. Adding a key that waits changes nothing; a key that is added while it is
worked on is worked on once more afterwards, so no change is missed. Three causes ask for work, and none cancels the
others:

- `add`: an input of the key changed. The key is worked on as soon as a worker is free.
- `add_after`: the key is due at a time; of two times the sooner counts.
- a failure (work returns False) or a conflict (work returns `Again` with ``retry``): the key waits for its back-off.

An `add` does not shorten the back-off of later failures: it asks for one more attempt, and only success resets the
count. Never `add` a key because of an event that the work itself caused, or the back-off is worth nothing.

Fresh keys go before retries, and retries occupy half of the workers at most, so that an edit is handled at once however
many keys fail. One in nine turns is a retry's even under constant load.

Keys can have lanes, for example their namespaces. Lanes take turns, and a crowd in one leaves workers to the others.
"""

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NamedTuple, NoReturn, TypeVar

from app.control.scheduler import LoopScheduler, Scheduler, Timer
from app.control.shares import Shares
from app.control.waiting_keys import WaitingKeys

_log: Final = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

BACKOFF_SECONDS: Final = (1.0, 600.0)
# How many fresh keys may pass a retry that waits.
MAX_PASSED: Final = 8


class Again(NamedTuple):
    """What work returns that succeeded for now, and has to be done again later."""

    seconds: float
    """From now."""
    retry: bool
    """Whether it is queued as a retry, behind fresh keys."""


Outcome = bool | Again
"""True: done. False: failed, to be retried with back-off."""


def spread() -> float:
    """Return a random factor around 1, so that keys which failed together do not come back together."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing


class _Due(NamedTuple):
    when: float
    timer: Timer


class WorkQueue(Generic[Key]):
    """Keys of one kind."""

    def __init__(
        self,
        *,
        backoff: tuple[float, float] = BACKOFF_SECONDS,
        scheduler: Scheduler | None = None,
        jitter: Callable[[], float] = spread,
        lane: Callable[[Key], Hashable] = lambda _: None,
        shares: Shares | None = None,
    ) -> None:
        """Prepare.

        Args:
            backoff: The first and the longest pause after failures in a row, in seconds.
            scheduler: The clock; None for the running event loop.
            jitter: Returns the factor that a pause is multiplied by.
            lane: Returns the lane of a key.
            shares: How many keys of a lane may be worked on at a time; None for any number.
        """
        self._backoff: Final = backoff
        self._scheduler: Final = scheduler or LoopScheduler()
        self._jitter: Final = jitter
        self._lane: Final = lane
        self._shares: Final = shares or Shares(sys.maxsize)
        self._fresh: Final[WaitingKeys[Key]] = WaitingKeys(lane)
        self._retries: Final[WaitingKeys[Key]] = WaitingKeys(lane)
        # Keys that are worked on, and whether as a retry.
        self._working: Final[dict[Key, bool]] = {}
        self._added_meanwhile: Final[set[Key]] = set()
        self._later: Final[dict[Key, _Due]] = {}
        self._backoffs: Final[dict[Key, Timer]] = {}
        self._failures: Final[dict[Key, int]] = {}
        self._passed = 0
        self._available: Final = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait to be worked on now; those for later are not counted."""
        return len(self._fresh) + len(self._retries)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being worked on; keys in back-off do not count."""
        return not self._fresh and not self._retries and not self._working

    def add(self, key: Key) -> None:
        """Have ``key`` worked on as soon as possible, because one of its inputs changed."""
        if key in self._working:
            self._added_meanwhile.add(key)
        elif key not in self._fresh:
            self._retries.discard(key)
            self._fresh.add(key)
            self._available.set()

    def add_retry(self, key: Key) -> None:
        """Have ``key`` worked on behind all fresh keys, because it has not been looked at for long."""
        if key not in self._working and key not in self._fresh and key not in self._retries:
            self._retries.add(key)
            self._available.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have ``key`` worked on in some seconds, or sooner if it is due sooner already."""
        when = self._scheduler.time() + seconds
        planned = self._later.get(key)
        if planned is not None:
            if planned.when <= when:
                return
            planned.timer.cancel()
        self._later[key] = _Due(when, self._scheduler.call_at(when, self._due, key))

    def take(self, *, max_retrying: int) -> Key | None:
        """Return the next key, which then counts as worked on until `finish`; None if there is none.

        Args:
            max_retrying: How many retries may be worked on at a time.
        """
        retry_may = bool(self._retries) and sum(self._working.values()) < max_retrying
        retry = retry_may and self._passed >= MAX_PASSED
        key = (self._retries if retry else self._fresh).take(self._shares.allows)
        if key is None and retry_may:
            retry = not retry
            key = (self._retries if retry else self._fresh).take(self._shares.allows)
        if key is None:
            return None
        self._passed = 0 if retry else self._passed + retry_may
        self._working[key] = retry
        self._shares.take(self._lane(key))
        # This is the work that the failure asked for; how it ends decides about the next pause.
        self._stop_backoff(key)
        return key

    def finish(self, key: Key, outcome: Outcome) -> None:
        """Put away a key that was taken.

        Args:
            key: The key.
            outcome: How the work ended.
        """
        del self._working[key]
        self._shares.give_back(self._lane(key))
        if outcome is False:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            least, most = self._backoff
            self._retry_in(key, min(most, least * 2 ** min(failures, 32)) * self._jitter())
        else:
            self._failures.pop(key, None)
        if isinstance(outcome, Again):
            (self._retry_in if outcome.retry else self.add_after)(key, outcome.seconds)
        if key in self._added_meanwhile:
            self._added_meanwhile.discard(key)
            self.add(key)
        self._available.set()

    async def run(self, work: Callable[[Key], Awaitable[Outcome]], *, workers: int) -> None:
        """Work on keys until cancelled, several at a time.

        Args:
            work: Works on a key. What it raises counts as a failure.
            workers: How many at a time.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._worker(work, max_retrying=max(1, workers // 2)))
        finally:
            for planned in self._later.values():
                planned.timer.cancel()
            for timer in self._backoffs.values():
                timer.cancel()

    async def _worker(self, work: Callable[[Key], Awaitable[Outcome]], *, max_retrying: int) -> NoReturn:
        while True:
            while (key := self.take(max_retrying=max_retrying)) is None:
                self._available.clear()
                await self._available.wait()
            outcome: Outcome = False
            try:
                outcome = await work(key)
            except Exception:  # noqa: BLE001 - one key that fails must not end the work on all others
                _log.exception("work on %s failed", key)
            self.finish(key, outcome)

    def _due(self, key: Key) -> None:
        del self._later[key]
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
