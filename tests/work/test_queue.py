"""The order in which keys are processed, with a fake clock."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from fleethook.work.queue import LoopScheduler, Outcome, WorkQueue, sleep
from tests.waiting import settled
from tests.work.clock import FakeClock


async def test_a_sleep_uses_a_timer_of_the_scheduler() -> None:
    clock = FakeClock()
    sleeping = asyncio.create_task(sleep(clock, 30.0))
    await asyncio.sleep(0)
    clock.advance(29.0)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1.0)
    await asyncio.wait_for(sleeping, 60)
    cancelled = asyncio.create_task(sleep(clock, 30.0))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert clock.next() == float("inf"), "its timer is cancelled, too"


async def test_the_loop_scheduler_uses_the_running_loop() -> None:
    scheduler, called = LoopScheduler(), asyncio.Event()
    assert scheduler.time() <= asyncio.get_running_loop().time()
    scheduler.call_at(scheduler.time(), called.set)
    cancelled = scheduler.call_at(scheduler.time(), called.clear)
    cancelled.cancel()
    await asyncio.wait_for(called.wait(), 60)


def queue_at(clock: FakeClock, *, backoff: tuple[float, float] = (1, 600)) -> WorkQueue[str]:
    return WorkQueue(backoff=backoff, scheduler=clock, jitter=lambda: 1.0)


def work(queue: WorkQueue[str], outcome: Outcome) -> str | None:
    """Process the next key, if there is one."""
    key = queue.take()
    if key is not None:
        queue.finish(key, outcome)
    return key


def fail(queue: WorkQueue[str], key: str) -> None:
    queue.add(key)
    assert work(queue, False) == key


def test_fresh_keys_and_retries_take_turns() -> None:
    clock = FakeClock()
    queue = queue_at(clock)
    for key in ("r1", "r2"):
        fail(queue, key)
    for key in ("f1", "f2", "f3"):
        queue.add(key)
    clock.advance(1)
    assert [work(queue, True) for _ in range(5)] == ["f1", "r1", "f2", "r2", "f3"]


def test_adding_a_retry_makes_it_fresh() -> None:
    clock = FakeClock()
    queue = queue_at(clock)
    for key in ("r1", "r2", "r3"):
        fail(queue, key)
    clock.advance(1)
    queue.add("r3")
    assert [work(queue, True) for _ in range(4)] == ["r1", "r3", "r2", None]


def test_add_retry_leaves_a_fresh_key_fresh() -> None:
    queue = queue_at(FakeClock())
    for key in ("r1", "r2"):
        queue.add_retry(key)
    queue.add("new")
    queue.add_retry("new")
    assert [work(queue, True) for _ in range(4)] == ["r1", "new", "r2", None]


def test_many_keys_of_one_consumer_leave_workers_to_others() -> None:
    queue: WorkQueue[str] = WorkQueue(scheduler=FakeClock(), consumer=lambda key: key[0], workers=4)
    for key in ("a1", "a2", "a3", "b1", "c1"):
        queue.add(key)
    assert [queue.take() for _ in range(5)] == ["a1", "b1", "c1", None, None]
    queue.finish("b1", True)
    assert [queue.take() for _ in range(2)] == ["a2", None]


# The workers.


@contextlib.asynccontextmanager
async def working(queue: WorkQueue[str], work: Callable[[str], Awaitable[Outcome]]) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(work))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Gate:
    """Work that the test ends."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open: dict[str, asyncio.Event] = {}

    async def __call__(self, key: str) -> bool:
        self.begun.append(key)
        event = self.open[key] = asyncio.Event()
        await event.wait()
        return True


async def test_retries_leave_workers_for_edits() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(backoff=(1, 600), scheduler=clock, jitter=lambda: 1.0, workers=4)
    gate = Gate()
    for key in ("r1", "r2", "r3", "r4"):
        fail(queue, key)
    clock.advance(1)
    async with working(queue, gate):
        await settled(lambda: gate.begun == ["r1", "r2"])
        queue.add("edit")
        await settled(lambda: gate.begun == ["r1", "r2", "edit"])
        gate.open["r1"].set()
        await settled(lambda: gate.begun == ["r1", "r2", "edit", "r3"])


async def test_an_exception_counts_as_failure_and_keeps_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    clock, seen = FakeClock(), list[str]()
    queue = queue_at(clock)

    async def work(key: str) -> bool:
        seen.append(key)
        if len(seen) == 1:
            raise ValueError("defect")
        return True

    queue.add("a")
    async with working(queue, work):
        await settled(lambda: queue.idle and seen == ["a"])
        clock.advance(1)
        await settled(lambda: queue.idle and seen == ["a", "a"])
    assert "processing a failed" in caplog.text


async def test_timers_end_with_the_workers() -> None:
    clock = FakeClock()
    queue = queue_at(clock)

    async def work(_: str) -> bool:
        return False

    queue.add("a")
    queue.add_after("b", 1)
    async with working(queue, work):
        await settled(lambda: queue.idle)
    clock.advance(600)
    assert len(queue) == 0
