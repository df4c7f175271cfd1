"""Long work in slices, so that the event loop serves reviews between them.

The work is a generator that yields where it may pause. It counts operations and never measures time, so that it pauses
at the same places on every machine. Work on a large document runs in a thread. It marks the slices that read the store;
these run on the event loop, because the event loop changes the store.
"""

import asyncio
import enum
from collections.abc import Generator
from typing import Any, Final, TypeVar

from app.control.turns import Executor

T = TypeVar("T")


class Slice(enum.Enum):
    """The next slice of some work."""

    PURE = enum.auto()
    """The slice reads immutable data only, so it may run in a thread."""
    READS_STORE = enum.auto()
    """The slice reads the store, so it must run on the event loop."""


# The yield type is Slice | None, but mypy accepts a bare ``yield`` only with None or Any.
Sliced = Generator[Any, None, T]
"""Work that pauses at each yield and returns its result at the end. It yields the kind of the next `Slice`, or None for
the same kind."""


def run_at_once(work: Sliced[T]) -> T:
    """Do sliced work without pauses, for callers that block no event loop."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def run_until_pause(work: Sliced[T]) -> "T | Sliced[T]":
    """Do sliced work up to its first pause; return its result, or the rest of the work.

    A yield that only marks the next slice is no pause: the caller does each slice itself.
    """
    try:
        while next(work) is not None:
            pass
    except StopIteration as end:
        result: T = end.value
        return result
    return work


class Slices:
    """Runs one slice in each iteration of the event loop, for any number of concurrent pieces of work.

    A request therefore waits for at most one slice, not for one slice of each piece of work.
    """

    def __init__(self) -> None:
        """Prepare."""
        # asyncio.Lock belongs to the first event loop that waits for it; each server process has one loop.
        self._turn: Final = asyncio.Lock()

    async def run(self, work: Sliced[T]) -> T:
        """Do sliced work, and return its result."""
        while True:
            async with self._turn:
                done = _advance(work)
                # After the last slice, too: much work may wait that has only one.
                await asyncio.sleep(0)
            if isinstance(done, _Result):
                result: T = done.value
                return result

    async def pause(self) -> None:
        """Wait until it is the turn of a slice that the caller does next, without waiting in it."""
        async with self._turn:
            await asyncio.sleep(0)


async def run_off_loop(work: Sliced[T], *, worker: Executor, turn: str) -> T:
    """Do sliced work in a thread, except for slices that read the store, and return its result.

    Other work gets its turn in the thread after each slice.

    Args:
        work: The work; its first slice is pure.
        worker: Runs functions in the thread.
        turn: The logical cluster whose turn in the thread is used.
    """
    following = Slice.PURE
    while True:
        if following is Slice.READS_STORE:
            done = _advance(work)
            if done is None:
                await asyncio.sleep(0)
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
    """Run one slice; return the kind of the next one, None for the same kind, or the result."""
    try:
        following: Slice | None = next(work)
    except StopIteration as end:
        return _Result(end.value)
    return following


class Pauses:
    """Counts units of work, and tells when a slice is full."""

    __slots__ = ("_done", "_limit")

    def __init__(self, limit: int) -> None:
        """Prepare for slices of ``limit`` units."""
        self._limit: Final = limit
        self._done = 0

    def due(self, units: int = 1) -> bool:
        """Count units; return whether the slice is full, and if so start the next one."""
        self._done += units
        if self._done < self._limit:
            return False
        self._done = 0
        return True
