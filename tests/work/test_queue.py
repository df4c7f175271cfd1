"""The order in which keys are processed, with a fake clock."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from fleethook.fairness import Limits
from fleethook.work.queue import MAX_PASSED, LoopScheduler, Outcome, WorkQueue, sleep
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


def take(queue: WorkQueue[str], *, max_retrying: int = 1) -> str | None:
    return queue.take(max_retrying=max_retrying)


def work(queue: WorkQueue[str], outcome: Outcome) -> str | None:
    """Process the next key, if there is one."""
    key = take(queue)
    if key is not None:
        queue.finish(key, outcome)
    return key


def fail(queue: WorkQueue[str], key: str) -> None:
    queue.add(key)
    assert work(queue, False) == key


def test_fresh_keys_precede_retries_except_for_one_in_nine_turns() -> None:
    clock = FakeClock()
    queue = queue_at(clock)
    for key in ("r1", "r2"):
        fail(queue, key)
    clock.advance(1)
    fresh = [f"f{number}" for number in range(2 * MAX_PASSED)]
    for key in fresh:
        queue.add(key)
    done = [work(queue, True) for _ in range(2 * MAX_PASSED + 2)]
    assert done == [*fresh[:MAX_PASSED], "r1", *fresh[MAX_PASSED:], "r2"]


def test_adding_a_retry_makes_it_fresh() -> None:
    clock = FakeClock()
    queue = queue_at(clock)
    for key in ("r1", "r2"):
        fail(queue, key)
    clock.advance(1)
    queue.add("r2")
    assert [work(queue, True) for _ in range(3)] == ["r2", "r1", None]


def test_add_retry_queues_behind_fresh_keys() -> None:
    queue = queue_at(FakeClock())
    queue.add_retry("old")
    queue.add("new")
    queue.add_retry("new")
    assert [work(queue, True) for _ in range(3)] == ["new", "old", None]


def test_a_retry_goes_before_fresh_keys_of_a_lane_that_has_its_share() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(
        scheduler=clock, jitter=lambda: 1.0, lane=lambda key: key[0], limits=Limits(2, reserved=1)
    )
    fail(queue, "b1")
    clock.advance(1)
    queue.add("a1")
    queue.add("a2")
    assert [take(queue) for _ in range(3)] == ["a1", "b1", None]


# The workers.


@contextlib.asynccontextmanager
async def working(
    queue: WorkQueue[str], work: Callable[[str], Awaitable[Outcome]], workers: int = 2
) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(work, workers=workers))
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


async def test_as_many_keys_as_workers_are_in_progress() -> None:
    queue, gate = WorkQueue[str](), Gate()
    for key in "abcd":
        queue.add(key)
    async with working(queue, gate, workers=3):
        await settled(lambda: len(gate.begun) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert gate.begun == ["a", "b", "c"]
        gate.open["b"].set()
        await settled(lambda: gate.begun == ["a", "b", "c", "d"])


async def test_retries_leave_a_worker_for_edits() -> None:
    clock = FakeClock()
    queue, gate = queue_at(clock), Gate()
    for key in ("r1", "r2", "r3", "r4"):
        fail(queue, key)
    clock.advance(1)
    async with working(queue, gate, workers=4):
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
