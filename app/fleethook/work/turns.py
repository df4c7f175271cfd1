"""Turns of the event loop and of a thread, which pieces of work that pause (`fleethook.work.pausing`) share."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from fleethook.fairness.slots import Limits, Slots
from fleethook.work.pausing import Slice, Work, begin

T = TypeVar("T")


class Executor(Protocol):
    """Runs functions in a thread, as `fleethook.work.worker.Worker` does."""

    async def run(self, cluster: str, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function, or raise its exception."""


class Turns(Slots):
    """Grants one turn at a time, to logical clusters or namespaces in rotation.

    In each iteration of the event loop, one paused piece of work continues. A request therefore waits for at most one
    slice of each lane, not for one slice of each piece of work.
    """

    def __init__(self) -> None:
        """Prepare."""
        super().__init__(Limits(1))

    async def pause(self, lane: str = "") -> None:
        """Let other work continue."""
        async with self.hold(lane):
            await asyncio.sleep(0)

    async def run(self, work: Work[T], *, lane: str = "") -> T:
        """Do work whose first slice waits for a turn, too, because many callers may have work of one slice.

        Args:
            work: The work.
            lane: The namespace for which it is done, ``""`` for work of the server itself.
        """
        return await begin(self.share(_pause_first(work), lane=lane))

    def share(self, work: Work[T], *, lane: str, worker: Executor | None = None) -> Work[T]:
        """Return the same work for `begin`: it yields only awaitables, and waits for a turn where it pauses.

        Until the first pause or wait, a mark of the next slice is no pause, so short work ends at once.

        Args:
            work: The work.
            lane: The logical cluster or namespace whose turns the work uses.
            worker: Runs long functions; None if the work yields none.
        """
        try:
            step = next(work)
            while isinstance(step, Slice):
                step = next(work)
            while True:
                if step is None or isinstance(step, Slice):
                    step = self.pause(lane)
                elif worker is not None and callable(step):
                    step = worker.run(lane, step)
                try:
                    found = yield step
                except Exception as error:  # noqa: BLE001 - the work handles it where it waits
                    step = work.throw(error)
                else:
                    step = work.send(found)
        except StopIteration as end:
            result: T = end.value
            return result
        except GeneratorExit:
            work.close()
            raise


def _pause_first(work: Work[T]) -> Work[T]:
    yield
    return (yield from work)


async def run_off_loop(work: Work[T], *, worker: Executor, lane: str) -> T:
    """Do work in a thread, except for slices that read the store.

    Other work gets its turn in the thread after each slice.

    Args:
        work: The work. It only pauses, and its first slice is pure.
        worker: Runs functions in the thread.
        lane: The logical cluster or namespace whose turns in the thread the work uses.
    """
    following = Slice.PURE
    while True:
        if following is Slice.READS_STORE:
            done = _advance(work)
            if done is None:
                await asyncio.sleep(0)
        else:
            done = await worker.run(lane, _advance, work)
        if isinstance(done, _Result):
            result: T = done.value
            return result
        following = done or following


class _Result:
    def __init__(self, value: Any) -> None:
        self.value: Final = value


def _advance(work: Work[Any]) -> "Slice | _Result | None":
    """Do one slice; return the kind of the next one, None for the same kind, or the result."""
    try:
        following: Slice | None = next(work)
    except StopIteration as end:
        return _Result(end.value)
    return following
