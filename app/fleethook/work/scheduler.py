"""The clock and timers of queues and rate limits: an event loop, or a fake in tests."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A planned call."""

    def cancel(self) -> None:
        """Cancel the call, unless it was made already."""


class Scheduler(Protocol):
    """A monotonic clock with timers, a subset of ``asyncio.AbstractEventLoop``."""

    def time(self) -> float:
        """Return the time in seconds, from any origin."""

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call ``callback(*args)`` at that time."""


class LoopScheduler:
    """The running event loop, looked up at each call, so that users can be constructed before a loop runs."""

    def time(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Timer:
        """Call at the loop's time ``when``."""
        return asyncio.get_running_loop().call_at(when, callback, *args)


async def sleep(scheduler: Scheduler, seconds: float) -> None:
    """Sleep for some seconds of the scheduler's clock."""
    over = asyncio.Event()
    timer = scheduler.call_at(scheduler.time() + seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
