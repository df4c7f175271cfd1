"""Run long functions in threads, in turns between logical clusters or scripts."""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from app.fairness.slots import Limits, Slots

_T = TypeVar("_T")
# A waiting thread gets the GIL after this time in seconds. The event loop waits for the GIL several times per request:
# with Python's default of 5 ms, one busy thread adds 30 ms to every request.
_SWITCH_SECONDS: Final = 0.0005


class Worker:
    """Runs functions in threads of its own. Lanes take turns, so that none waits for all work of another one.

    A lane is a logical cluster, a script or a route.
    """

    def __init__(self, threads: int = 1, *, share: int | None = None, name: str = "long-work") -> None:
        """Prepare; the first function starts a thread.

        Args:
            threads: The number of functions that run at a time.
            share: The number of functions of one lane that run at a time; None for all threads.
            name: The prefix of the threads' names.
        """
        self._threads: Final = threads
        self._name: Final = name
        self._executor: ThreadPoolExecutor | None = None
        self._slots: Final = Slots(Limits(threads, each=share or threads))

    def __len__(self) -> int:
        """Return the number of functions that run or wait."""
        return self._slots.held + self._slots.queued

    def count(self, lane: str) -> int:
        """Return the number of functions of a lane that run or wait."""
        return self._slots.count(lane)

    async def run(self, lane: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return the result of a function, or raise its exception.

        Args:
            lane: The lane whose turn is used.
            function: The function; it must not read data that the event loop changes.
            arguments: The arguments of the function.
        """
        async with self._slots.hold(lane):
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            # Cancelling the caller does not end the function, so the turn lasts until the function returns.
            return await _await_end(loop.run_in_executor(self._ensure_executor(), context.run, function, *arguments))

    def close(self) -> None:
        """Stop the threads; running functions end by themselves."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _ensure_executor(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, self._name)
            favour_event_loop()
        return self._executor


def favour_event_loop() -> None:
    """Shorten the switch interval of Python, so that the event loop waits less for a busy thread."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))


async def _await_end(running: "asyncio.Future[_T]") -> _T:
    """Return the result of a function; a cancellation takes effect after the function has returned."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
    finally:
        # The exception, its traceback and this frame form a cycle that would keep the arguments alive.
        del running
