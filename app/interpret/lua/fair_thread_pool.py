"""Fair turns on threads: each script has a share of them, and scripts that wait take turns.

A lane belongs to one event loop and has threads of its own, so calls of one lane never wait for those of another one.
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
"""Calls that may run or wait in a lane."""
MAX_WAITING_EACH: Final = 64
"""Those of one script among them."""


class _Waiting(NamedTuple):
    """A call that waits for its turn."""

    work: Callable[[], list[JSON]]
    answer: "asyncio.Future[list[JSON]]"


class FairThreadPool:
    """Threads on which calls of scripts run in turns."""

    def __init__(self, name: str, threads: int, *, share: int) -> None:
        """Prepare; threads are made when they are first needed.

        Args:
            name: Of its threads.
            threads: How many calls run at a time.
            share: How many of them may be one script's.
        """
        self._name: Final = name
        self._threads: Final = threads
        self._share: Final = share
        self._executor: ThreadPoolExecutor | None = None
        self._queues: Final[OrderedDict[str, deque[_Waiting]]] = OrderedDict()
        self._running: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        """Return how many calls run or wait."""
        return sum(self._running.values()) + sum(map(len, self._queues.values()))

    async def run(self, script: str, work: Callable[[], list[JSON]]) -> list[JSON]:
        """Return what ``work`` returns, on a thread and in turn.

        Raises:
            InterpretError: Too many calls wait, of this script or of all.
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
        """End the threads; calls that run are within their limits soon."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start calls as long as there are threads for them."""
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
            if call.answer.done():  # nobody waits for it any more
                continue
            self._running[script] = self._running.get(script, 0) + 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            self._executor.submit(call.work).add_done_callback(self._ending(loop, script, call.answer))

    def _ending(
        self, loop: asyncio.AbstractEventLoop, script: str, answer: "asyncio.Future[list[JSON]]"
    ) -> "Callable[[Future[list[JSON]]], None]":
        def ended(future: "Future[list[JSON]]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(self._ended, loop, script, answer, future)

        return ended

    def _ended(
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
