"""Waiting for conditions, never for time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, seconds: float = 30, what: str = "") -> T:
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
