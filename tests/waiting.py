"""Waiting for conditions, never for time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

NET: Final = 300.0
"""Seconds after which a test gives up on what should have happened: a net, which no machine is too slow for."""
LIMITS: Final = (0.5, 2.0, 8.0, 32.0)
"""Seconds that tests of a time limit set, one after the other until the machine gets as far as the fault within them."""


def wait_for(condition: Callable[[], T], *, seconds: float = NET, what: str = "") -> T:
    """Return what ``condition`` returns as soon as that is true; an AssertionError from it counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        problem = ""
        try:
            if result := condition():
                return result
        except (AssertionError, OSError) as error:
            problem = str(error)
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition} {problem}")
        time.sleep(0.05)


async def until(condition: Callable[[], object], *, seconds: float = NET, what: str = "") -> None:
    """Wait on the event loop until ``condition`` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        await asyncio.sleep(0.01)


async def settled(condition: Callable[[], object]) -> None:
    """Let the event loop go on until ``condition`` is true, as often as tasks in memory may need."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing more happens, and the condition is not true")


def with_patience(attempt: Callable[[float], T], is_far_enough: Callable[[T], object]) -> T:
    """Return what the first attempt returns that was given time enough to reach the fault which it is about.

    Args:
        attempt: makes what is tested fail by a limit of so many seconds.
        is_far_enough: whether the fault was reached, and not the limit before it.
    """
    for seconds in LIMITS:
        result = attempt(seconds)
        if is_far_enough(result):
            break
    return result


async def with_patience_async(attempt: Callable[[float], Awaitable[T]], is_far_enough: Callable[[T], object]) -> T:
    """As ``with_patience``."""
    for seconds in LIMITS:
        result = await attempt(seconds)
        if is_far_enough(result):
            break
    return result
