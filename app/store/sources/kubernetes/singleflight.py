"""Live reads that concurrent callers share, without giving anybody an answer older than the question.

golang.org/x/sync/singleflight has a caller join the call that is under way. Here that would be wrong: the answer may
have left the server before the write that made the caller ask. So a caller joins a read that has not started yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final


class SharedReads:
    """At most one read of a key is under way and at most one more is queued, however many callers there are."""

    def __init__(self) -> None:
        self._running: Final[dict[Hashable, asyncio.Task[None]]] = {}
        self._queued: Final[dict[Hashable, asyncio.Task[None]]] = {}

    async def join(self, key: Hashable, read: Callable[[], Awaitable[None]]) -> None:
        """Return when a read that started after this call has ended; raises what it raised.

        A caller that is cancelled leaves the read to the others.

        Args:
            key: What is read.
            read: Reads it; of several callers of the same key, the first one's is used.
        """
        queued = self._queued.get(key)
        if queued is None:
            queued = asyncio.create_task(self._run(key, read), name=f"live read {key}")
            queued.add_done_callback(_take_exception)
            self._queued[key] = queued
        await asyncio.shield(queued)

    async def _run(self, key: Hashable, read: Callable[[], Awaitable[None]]) -> None:
        task = self._queued[key]
        try:
            if (running := self._running.get(key)) is not None:
                await asyncio.wait([running])
        finally:
            del self._queued[key]
        self._running[key] = task
        try:
            await read()
        finally:
            del self._running[key]


def _take_exception(task: asyncio.Task[None]) -> None:
    """Mark the outcome as seen: asyncio would log it as lost if every caller was cancelled before."""
    if not task.cancelled():
        task.exception()
