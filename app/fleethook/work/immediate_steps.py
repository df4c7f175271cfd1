"""Work that goes on at once as far as it can, and waits only where it has to.

The work is a generator: it yields an awaitable wherever something has to be waited for, and is sent the result. If it
yields nothing, its result is there without a task, a coroutine or the event loop. No coroutine is stepped outside a
task here: `asyncio.timeout` and aiohttp look for the current one.
"""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

Steps = Generator[Awaitable[Any], Any, T]
"""Work that yields awaitables, is sent their results, and returns its own."""


class Done(NamedTuple, Generic[T]):
    """The end of some work."""

    result: T


def begin(work: Steps[T]) -> Done[T] | Coroutine[Any, Any, T]:
    """Go on with work until it waits for something.

    Returns:
        The result, or a coroutine that goes on with the work and returns the result.

    Raises:
        Exception: The work has failed before it waited for anything.
    """
    try:
        waiting = next(work)
    except StopIteration as end:
        return Done(end.value)
    return _go_on(work, waiting)


async def finish(work: Steps[T]) -> T:
    """Do work to its end, in a task; raises the exceptions of the work."""
    begun = begin(work)
    return begun.result if isinstance(begun, Done) else await begun


async def _go_on(work: Steps[T], waiting: Awaitable[Any]) -> T:
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
        # A cancellation ends the work where it waits, and not at some later collection.
        work.close()
