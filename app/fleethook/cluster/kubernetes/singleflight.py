"""Live reads that concurrent callers share. No caller gets a response that is older than its call.

In golang.org/x/sync/singleflight a caller joins the running call. Here that would be wrong: the server may have sent
the response before the write that made the caller read. So a caller joins a read that has not started yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final


class SharedReads:
    """Runs at most one read of a key and queues at most one more, for any number of callers."""

    def __init__(self) -> None:
        self._running: Final[dict[Hashable, asyncio.Task[None]]] = {}
        self._queued: Final[dict[Hashable, asyncio.Task[None]]] = {}

    async def join(self, key: Hashable, read: Callable[[], Awaitable[None]]) -> None:
        """Wait for a read that starts after this call; raises the exception of the read.

        A cancelled caller does not cancel the read, because others may wait for it.

        Args:
            key: Identifies the object or list.
            read: Reads it; if several callers queue the same key, the function of the first one runs.
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
    """Retrieve the exception, which asyncio would otherwise log if all callers were cancelled."""
    if not task.cancelled():
        task.exception()
