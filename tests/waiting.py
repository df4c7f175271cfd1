"""Waits for conditions, never for time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

NET: Final = 300.0
"""Seconds after which a test stops waiting for a condition: long enough for every machine."""
LIMITS: Final = (0.5, 2.0, 8.0, 32.0)
"""Time limits that tests try one after the other, until the machine reaches the fault within the limit."""


def wait_for(condition: Callable[[], T], *, seconds: float = NET, what: str = "") -> T:
    """Return the result of ``condition`` as soon as it is true; an AssertionError counts as false."""
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
    """Run the event loop until ``condition`` is true, for as many turns as tasks without I/O may need."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition is not true after 1000 turns of the event loop")


def with_patience(attempt: Callable[[float], T], is_far_enough: Callable[[T], object]) -> T:
    """Return the result of the first attempt whose time limit is long enough to reach the tested fault.

    Args:
        attempt: makes the tested operation fail by a limit in seconds.
        is_far_enough: whether the operation reached the fault before the limit.
    """
    for seconds in LIMITS:
        result = attempt(seconds)
        if is_far_enough(result):
            break
    return result


async def with_patience_async(attempt: Callable[[float], Awaitable[T]], is_far_enough: Callable[[T], object]) -> T:
    """Like ``with_patience``, for coroutines."""
    for seconds in LIMITS:
        result = await attempt(seconds)
        if is_far_enough(result):
            break
    return result
