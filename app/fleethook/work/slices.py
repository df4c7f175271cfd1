"""Long work in slices, so that the event loop serves reviews between them.

The work is a generator that yields where it may pause. It counts operations and never measures time, so that it pauses
at the same places on every machine. Work on a large document runs in a thread. It marks the slices that read the store;
these run on the event loop, because the event loop changes the store. `fleethook.work.slice_runner` does both.
"""

import enum
from collections.abc import Generator
from typing import Any, Final, TypeVar

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
