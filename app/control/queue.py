"""A queue of keys to work on: each once, never twice at a time, again after a growing pause where it failed.

The rules are those of client-go's workqueue: adding a key that waits changes nothing; adding one that is being worked
on has it worked on once more afterwards, so no change is ever missed and none is worked on beside itself.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NoReturn, TypeVar

_log: Final = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

BACKOFF_SECONDS: Final = (1.0, 600.0)


class WorkQueue(Generic[Key]):
    """Keys of one kind."""

    def __init__(self, *, backoff: tuple[float, float] = BACKOFF_SECONDS) -> None:
        """Prepare; ``backoff`` is the first and the longest pause after failures in a row, in seconds."""
        self._backoff: Final = backoff
        self._ready: Final[deque[Key]] = deque()
        self._waiting: Final[set[Key]] = set()
        self._working: Final[set[Key]] = set()
        self._again: Final[set[Key]] = set()
        self._later: Final[dict[Key, asyncio.TimerHandle]] = {}
        self._failures: Final[dict[Key, int]] = {}
        self._available: Final = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait to be worked on now; those for later are not counted."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being worked on; what failed and waits for its pause does not count."""
        return not self._ready and not self._working

    def add(self, key: Key) -> None:
        """Have ``key`` worked on as soon as may be."""
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._available.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have ``key`` worked on in some seconds, or sooner if it is to be sooner already."""
        if key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._later.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._later[key] = loop.call_at(due, self.add, key)

    async def run(self, work: Callable[[Key], Awaitable[bool]], *, workers: int) -> None:
        """Work on keys until cancelled, several at a time.

        Args:
            work: Works on a key; returns whether that is done with. What it raises counts as not.
            workers: How many at a time.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._worker(work))
        finally:
            for timer in self._later.values():
                timer.cancel()

    async def _worker(self, work: Callable[[Key], Awaitable[bool]]) -> NoReturn:
        while True:
            key = await self._next()
            try:
                done = await work(key)
            except Exception:  # noqa: BLE001 - one key that fails must not end the work on all others
                _log.exception("work on %s failed", key)
                done = False
            self._finished(key, done=done)

    async def _next(self) -> Key:
        while not self._ready:
            self._available.clear()
            await self._available.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def _finished(self, key: Key, *, done: bool) -> None:
        self._working.discard(key)
        if done:
            self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif not done:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            least, most = self._backoff
            pause = min(most, least * 2 ** min(failures, 32))
            self.add_after(key, pause * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load, guards nothing
