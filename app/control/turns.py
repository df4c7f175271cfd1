"""Turns between clusters: one piece of work at a time, and no cluster waits for all that another one has to do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Final, Protocol, TypeVar

from app.control.fair_queue import FairQueue, wait_for_turn

T = TypeVar("T")

Work = Generator[Callable[[], Any] | None, Any, T]
"""Work in slices. It yields None wherever others may have a turn, or a function that takes long and touches nothing
that changes meanwhile; it is sent the result of that function. It returns its result at the end."""


class Executor(Protocol):
    """Runs functions off the event loop, as `app.control.worker.Worker` does."""

    async def run(self, cluster: str, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns; raises what it raises."""


class Turns:
    """Gives turns to one piece of work after the other; clusters come in rotation."""

    def __init__(self) -> None:
        """Prepare."""
        self._waiting: Final = FairQueue()
        self._busy = False

    @contextlib.asynccontextmanager
    async def hold(self, cluster: str) -> AsyncIterator[None]:
        """Wait for a turn of a cluster, and hold it."""
        await self._wait(cluster)
        try:
            yield
        finally:
            self._pass_on()

    async def pause(self, cluster: str) -> None:
        """Let others go on. However many pieces of work pause, one of them continues in each turn of the event loop."""
        async with self.hold(cluster):
            await asyncio.sleep(0)

    async def _wait(self, cluster: str) -> None:
        if not self._busy:
            self._busy = True
            return
        await wait_for_turn(self._waiting.join(cluster), give_back=self._pass_on)

    def _pass_on(self) -> None:
        """Give the turn to the next cluster."""
        turn = self._waiting.next()
        if turn is None:
            self._busy = False
        else:
            turn.set_result(None)


def do_at_once(work: Work[T]) -> T:
    """Do work without a pause, where nobody else waits."""
    result: Any = None
    try:
        while True:
            job = work.send(result)
            result = None if job is None else job()
    except StopIteration as end:
        value: T = end.value
        return value


async def do_in_turns(work: Work[T], *, turns: Turns, worker: Executor, cluster: str) -> T:
    """Do work slice by slice.

    Args:
        work: The work.
        turns: Shared by all that works on this event loop.
        worker: Runs functions that take long.
        cluster: The logical cluster that uses its turns.
    """
    result: Any = None
    try:
        while True:
            job = work.send(result)
            result = await (turns.pause(cluster) if job is None else worker.run(cluster, job))
    except StopIteration as end:
        value: T = end.value
        return value
