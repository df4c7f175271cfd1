"""Runs calls of scripts on threads: each script has a share of the threads, and waiting scripts take turns.

A pool belongs to one event loop and has its own threads, so the calls of one pool never wait for those of another.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from app.interpret.access import InterpretError
from app.model.json import JSON

MAX_WAITING: Final = 128
"""Calls that may run or wait in a pool."""
MAX_WAITING_EACH: Final = 64
"""Calls of one script that may run or wait in a pool."""


class _Waiting(NamedTuple):
    """A waiting call."""

    work: Callable[[], list[JSON]]
    answer: "asyncio.Future[list[JSON]]"


class FairThreadPool:
    """Threads on which scripts take turns."""

    def __init__(self, name: str, threads: int, *, share: int) -> None:
        """Prepare; the first call starts the threads.

        Args:
            name: The prefix of the threads' names.
            threads: The number of calls that run at a time.
            share: The number of calls of one script that run at a time.
        """
        self._name: Final = name
        self._threads: Final = threads
        self._share: Final = share
        self._executor: ThreadPoolExecutor | None = None
        self._queues: Final[OrderedDict[str, deque[_Waiting]]] = OrderedDict()
        self._running: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        """Return the number of calls that run or wait."""
        return sum(self._running.values()) + sum(map(len, self._queues.values()))

    async def run(self, script: str, work: Callable[[], list[JSON]]) -> list[JSON]:
        """Run ``work`` on a thread when it is the script's turn, and return its result.

        Raises:
            InterpretError: Too many calls wait, of this script or in total.
        """
        queued = len(self._queues.get(script, ()))
        if len(self) >= MAX_WAITING or queued + self._running.get(script, 0) >= MAX_WAITING_EACH:
            raise InterpretError(f"{len(self)} calls of slow scripts are running or waiting: try again later", code=503)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[JSON]] = loop.create_future()
        self._queues.setdefault(script, deque()).append(_Waiting(work, answer))
        self._start(loop)
        return await answer

    def close(self) -> None:
        """Stop the threads; running calls end at their limits."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start waiting calls while threads are free."""
        while sum(self._running.values()) < self._threads:
            script = min(self._queues, key=lambda name: self._running.get(name, 0), default=None)
            if script is None or self._running.get(script, 0) >= self._share:
                return
            queue = self._queues[script]
            call = queue.popleft()
            if queue:
                self._queues.move_to_end(script)
            else:
                del self._queues[script]
            if call.answer.done():  # its caller was cancelled
                continue
            self._running[script] = self._running.get(script, 0) + 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            self._executor.submit(call.work).add_done_callback(self._make_callback(loop, script, call.answer))

    def _make_callback(
        self, loop: asyncio.AbstractEventLoop, script: str, answer: "asyncio.Future[list[JSON]]"
    ) -> "Callable[[Future[list[JSON]]], None]":
        def ended(future: "Future[list[JSON]]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(self._finish, loop, script, answer, future)

        return ended

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        script: str,
        answer: "asyncio.Future[list[JSON]]",
        future: "Future[list[JSON]]",
    ) -> None:
        self._running[script] -= 1
        if self._running[script] == 0:
            del self._running[script]
        self._start(loop)
        if answer.done():
            return
        if future.cancelled():
            answer.cancel()
        elif (problem := future.exception()) is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(future.result())
