"""The clock and the timers that queues and paces use; an event loop is one, and a test brings its own."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is planned."""

    def cancel(self) -> None:
        """Drop the call if it has not been made yet."""


class Scheduler(Protocol):
    """A monotonic clock with timers: the part of ``asyncio.AbstractEventLoop`` that is needed."""

    def time(self) -> float:
        """Return the time in seconds, from any origin."""

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call ``callback(*args)`` at that time."""


class LoopScheduler:
    """The event loop that runs when it is used, so that its user can be made before a loop runs."""

    def time(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call at the loop's time ``when``."""
        return asyncio.get_running_loop().call_at(when, callback, *args)


async def sleep(scheduler: Scheduler, seconds: float) -> None:
    """Return after that many seconds of the scheduler's time."""
    over = asyncio.Event()
    timer = scheduler.call_at(scheduler.time() + seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
