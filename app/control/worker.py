"""Functions that take long, in a thread of their own and in turns between clusters."""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from app.control.turns import Turns

_T = TypeVar("_T")
# Python lets a waiting thread run after this time, in seconds. The event loop waits for it several times in each
# request; with Python's default of 5 ms, one thread that is busy adds 30 ms to every request.
_SWITCH_SECONDS: Final = 0.0005


class Worker:
    """Runs functions in one thread. Clusters take turns, so that none waits for all that another one has to do."""

    def __init__(self) -> None:
        """Prepare; the thread starts with the first function."""
        self._executor: ThreadPoolExecutor | None = None
        self._turns: Final = Turns()

    async def run(self, cluster: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return what a function returns; raises what it raises.

        Args:
            cluster: whose turn it is to be.
            function: The work; it may not touch anything that the event loop changes.
            arguments: its arguments.
        """
        async with self._turns.hold(cluster):
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            # A caller that goes away does not end the thread, so the turn lasts until the function has ended.
            return await _ended(loop.run_in_executor(self._started(), context.run, function, *arguments))

    def _started(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "long-work")
            favour_event_loop()
        return self._executor


def favour_event_loop() -> None:
    """Have a busy thread let the event loop go on soon."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))


async def _ended(running: "asyncio.Future[_T]") -> _T:
    """Return the result of a function; a cancellation is passed on after the function has ended."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
    finally:
        # It holds an exception whose traceback holds this frame, and so the arguments of the function.
        del running
