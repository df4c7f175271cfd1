"""Long work, cut into slices so that reviews are answered in between.

The work is a generator that yields wherever it may pause. It counts what it has done to decide where: operations, never
time, so that it pauses at the same places on every machine. Work on a large document runs in a thread; it says which
of its slices read the store, and those run on the event loop, which changes the store.
"""

import asyncio
import enum
from collections.abc import Generator
from typing import Any, Final, TypeVar

from app.control.turns import Runs

T = TypeVar("T")


class Slice(enum.Enum):
    """The next slice of some work."""

    PURE = enum.auto()
    """It reads only what nobody changes, so it may run in a thread."""
    READS_STORE = enum.auto()
    """It reads the store, and so runs on the event loop."""


# Slice | None; mypy takes a bare yield for an error in all but None and Any.
Sliced = Generator[Any, None, T]
"""Work that pauses at each yield and returns its result at the end. What it yields is the `Slice` that follows, or None
for one like the last."""


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

    async def pause(self) -> None:
        """Wait until it is the turn of a slice that the caller does next, without waiting in it."""
        async with self._turn:
            await asyncio.sleep(0)


async def run_off_loop(work: Sliced[T], *, worker: Runs, turn: str) -> T:
    """Do sliced work in a thread, but for slices that read the store, and return its result.

    Others have their turns in the thread after each slice.

    Args:
        work: The work; its first slice is pure.
        worker: Has the thread.
        turn: Whose turn in the thread it is.
    """
    following = Slice.PURE
    while True:
        if following is Slice.READS_STORE:
            done = _advance(work)
        else:
            done = await worker.run(turn, _advance, work)
        if isinstance(done, _Result):
            result: T = done.value
            return result
        following = done or following


class _Result:
    def __init__(self, value: Any) -> None:
        self.value: Final = value


def _advance(work: Sliced[Any]) -> "Slice | _Result | None":
    """Do a slice; return of which sort the next one is, None if of the same, or the result."""
    try:
        following: Slice | None = next(work)
    except StopIteration as end:
        return _Result(end.value)
    return following


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
