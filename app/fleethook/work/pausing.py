"""One protocol for work that pauses or waits: long computations, and reviews that need an answer from elsewhere.

Work is a generator. It yields wherever it may pause or has to wait, receives the result, and returns its own result at
the end. It counts operations and never measures time, so that it pauses at the same places on every machine.

Two functions run it. `do_at_once` does not pause. `begin` runs the work until it waits, and returns the rest as a
coroutine.
`fleethook.work.turns` lets pieces of work that pause share the event loop and a thread.
"""

import enum
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Slice(enum.Enum):
    """The next slice of some work."""

    PURE = enum.auto()
    """The slice reads immutable data only, so it may run in a thread."""
    READS_STORE = enum.auto()
    """The slice reads the store, so it must run on the event loop, because the event loop changes the store."""


# mypy accepts a bare ``yield`` only if the yield type is None or Any.
Work = Generator[Any, Any, T]
"""Work, which yields one of these:

- None: other work may have a turn.
- `Slice`: the same, and the next slice is of this kind.
- A function without parameters that takes long, and reads immutable data only. The work receives its result.
- An awaitable. The work receives its result.
"""


def do_at_once(work: Work[T]) -> T:
    """Do work without pauses, for callers that block no event loop.

    Raises:
        TypeError: The work waits for an awaitable, so it needs `begin`.
    """
    found: Any = None
    try:
        while True:
            step = work.send(found)
            found = None
            if callable(step):
                found = step()
            elif isinstance(step, Awaitable):
                raise TypeError(f"the work waits for {step!r}; run the work with begin()")
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()


class Done(NamedTuple, Generic[T]):
    """The end of some work. Awaiting it returns the result at once."""

    result: T

    def __await__(self) -> Generator[Any, Any, T]:
        """Return the result."""
        return self.result
        yield  # type: ignore[unreachable]


def begin(work: Work[T]) -> Done[T] | Coroutine[Any, Any, T]:
    """Do work until it waits.

    Work that does not wait needs no task, no coroutine and no event loop. This function runs no coroutine, because
    `asyncio.timeout` and aiohttp fail outside a task.

    Args:
        work: The work. It yields only awaitables; `fleethook.work.turns.Turns.share` makes such work of any other.

    Returns:
        The result, or a coroutine that goes on with the work and returns the result. Both can be awaited.

    Raises:
        Exception: The work has failed before it waited.
    """
    try:
        waiting = next(work)
    except StopIteration as end:
        return Done(end.value)
    return _go_on(work, waiting)


async def _go_on(work: Work[T], waiting: Awaitable[Any]) -> T:
    try:
        while True:
            try:
                found = await waiting
            except Exception as error:  # noqa: BLE001 - the work handles it where it waits
                waiting = work.throw(error)
            else:
                waiting = work.send(found)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        # A cancellation ends the work now. Otherwise, the garbage collector would end it at some later time.
        work.close()


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
