"""Turns between logical clusters, so that no cluster waits for all work of another one."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from fleethook.fairness.slots import Limits, Slots
from fleethook.work.immediate_steps import Steps, finish

T = TypeVar("T")

Work = Generator[Callable[[], Any] | None, Any, T]
"""Work in slices. It yields None where other work may have a turn, or a long function that reads immutable data only.
The generator receives the result of that function, and returns its own result at the end."""


class Executor(Protocol):
    """Runs functions in a thread, as `fleethook.work.worker.Worker` does."""

    async def run(self, cluster: str, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function, or raise its exception."""


class Turns(Slots):
    """Grants one turn at a time, to logical clusters in rotation."""

    def __init__(self) -> None:
        """Prepare."""
        super().__init__(Limits(1))

    async def pause(self, cluster: str = "") -> None:
        """Let other work continue. In each iteration of the event loop, one paused piece of work continues."""
        async with self.hold(cluster):
            await asyncio.sleep(0)


def do_at_once(work: Work[T]) -> T:
    """Do work without pauses, for callers that block no event loop."""
    result: Any = None
    try:
        while True:
            job = work.send(result)
            result = None if job is None else job()
    except StopIteration as end:
        value: T = end.value
        return value


async def do_in_turns(work: Work[T], *, turns: Turns, worker: Executor, cluster: str) -> T:
    """Do work slice by slice; the arguments are those of `do_in_steps`."""
    return await finish(do_in_steps(work, turns=turns, worker=worker, cluster=cluster))


def do_in_steps(work: Work[T], *, turns: Turns, worker: Executor, cluster: str) -> Steps[T]:
    """Do work slice by slice; waits for nothing if the work has one slice.

    Args:
        work: The work.
        turns: The turns that all work on this event loop shares.
        worker: Runs long functions.
        cluster: The logical cluster whose turns are used.
    """
    result: Any = None
    try:
        while True:
            job = work.send(result)
            result = yield (turns.pause(cluster) if job is None else worker.run(cluster, job))
    except StopIteration as end:
        value: T = end.value
        return value
