"""Runs sliced work (`fleethook.work.slices`) on the event loop or in a thread."""

import asyncio
from typing import Any, Final, TypeVar

from fleethook.work.fair_turns import Executor, Turns
from fleethook.work.slices import Slice, Sliced

T = TypeVar("T")


class Slices(Turns):
    """Runs one slice in each iteration of the event loop, for any number of concurrent pieces of work.

    A request therefore waits for at most one slice of each lane, not for one slice of each piece of work.
    """

    async def run(self, work: Sliced[T], *, lane: str = "") -> T:
        """Do sliced work, and return its result.

        Args:
            work: The work.
            lane: The namespace for which it is done, ``""`` for work of the server itself.
        """
        while True:
            async with self.hold(lane):
                done = _advance(work)
                # After the last slice, too: much work may wait that has only one.
                await asyncio.sleep(0)
            if isinstance(done, _Result):
                result: T = done.value
                return result


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
