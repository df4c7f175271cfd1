"""Long work on the event loop, cut into slices so that reviews are answered in between.

The work is a generator that yields wherever it may pause. It counts what it has done to decide where: operations, never
time, so that it pauses at the same places on every machine.
"""

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

Sliced = Generator[None, None, T]
"""Work that pauses at each yield and returns its result at the end."""


def run_at_once(work: Sliced[T]) -> T:
    """Do sliced work without a pause, where nobody else waits."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


class Slices:
    """Gives the event loop to one slice at a time, however many pieces of long work there are.

    Between two slices the loop turns once, and so answers the requests that have arrived. A request therefore waits for
    one slice at most, and not for one of each piece of work.
    """

    def __init__(self) -> None:
        """Prepare."""
        # A lock belongs to the loop that first waits for it; each server process has one loop.
        self._turn: Final = asyncio.Lock()

    async def run(self, work: Sliced[T]) -> T:
        """Do sliced work, and return its result."""
        while True:
            try:
                async with self._turn:
                    next(work)
                    await asyncio.sleep(0)
            except StopIteration as end:
                result: T = end.value
                return result


class Pauses:
    """Counts units of work and says when a slice is full."""

    __slots__ = ("_done", "_limit")

    def __init__(self, limit: int) -> None:
        """Prepare for slices of ``limit`` units."""
        self._limit: Final = limit
        self._done = 0

    def due(self, units: int = 1) -> bool:
        """Count units; return whether the slice is full, and begin another one."""
        self._done += units
        if self._done < self._limit:
            return False
        self._done = 0
        return True
