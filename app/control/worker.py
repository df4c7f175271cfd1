"""Run long functions in one thread, in turns between logical clusters."""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from app.control.turns import Turns

_T = TypeVar("_T")
# A waiting thread gets the GIL after this time in seconds. The event loop waits for the GIL several times per request:
# with Python's default of 5 ms, one busy thread adds 30 ms to every request.
_SWITCH_SECONDS: Final = 0.0005


class Worker:
    """Runs functions in one thread. Clusters take turns, so that none waits for all work of another one."""

    def __init__(self) -> None:
        """Prepare; the first function starts the thread."""
        self._executor: ThreadPoolExecutor | None = None
        self._turns: Final = Turns()

    async def run(self, cluster: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return the result of a function, or raise its exception.

        Args:
            cluster: The logical cluster whose turn is used.
            function: The function; it must not read data that the event loop changes.
            arguments: The arguments of the function.
        """
        async with self._turns.hold(cluster):
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            # Cancelling the caller does not end the function, so the turn lasts until the function returns.
            return await _await_end(loop.run_in_executor(self._ensure_executor(), context.run, function, *arguments))

    def _ensure_executor(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "long-work")
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
