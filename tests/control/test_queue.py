import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.control.queue import WorkQueue
from tests.waiting import NET


@contextlib.asynccontextmanager
async def working(
    queue: WorkQueue[str], work: Callable[[str], Awaitable[bool]], workers: int = 2
) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(work, workers=workers))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settled(condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing more happens, and the condition is not true")


class Gate:
    """Work that is done when the test lets it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open: dict[str, asyncio.Event] = {}

    async def __call__(self, key: str) -> bool:
        self.begun.append(key)
        event = self.open[key] = asyncio.Event()
        await event.wait()
        return True


async def test_a_key_that_waits_is_worked_on_once() -> None:
    queue, done = WorkQueue[str](), []

    async def work(key: str) -> bool:
        done.append(key)
        return True

    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    async with working(queue, work):
        await settled(lambda: queue.idle)
    assert done == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_is_worked_on_again_afterwards_and_never_beside() -> None:
    queue, gate = WorkQueue[str](), Gate()
    queue.add("a")
    async with working(queue, gate):
        await settled(lambda: gate.begun == ["a"])
        queue.add("a")
        queue.add("a")
        queue.add("b")
        await settled(lambda: gate.begun == ["a", "b"])
        gate.open["a"].set()
        await settled(lambda: gate.begun == ["a", "b", "a"])
        gate.open["a"].set()
        gate.open["b"].set()
        await settled(lambda: queue.idle)
    assert gate.begun == ["a", "b", "a"]


async def test_what_fails_is_worked_on_again_after_growing_pauses_and_success_forgets_them() -> None:
    queue, results = WorkQueue[str](backoff=(0.001, 0.004)), [False, False, False, True, True]
    pauses: list[float] = []
    add_after = queue.add_after

    def remember(key: str, seconds: float) -> None:
        pauses.append(seconds)
        add_after(key, seconds)

    queue.add_after = remember  # type: ignore[method-assign]
    left = iter(results)
    finished = asyncio.Event()

    async def work(_: str) -> bool:
        result = next(left)
        if result:
            finished.set()
        return result

    queue.add("a")
    async with working(queue, work):
        await asyncio.wait_for(finished.wait(), NET)
        finished.clear()
        queue.add("a")
        await asyncio.wait_for(finished.wait(), NET)
    assert [round(pause / 0.001 / 2**number, 9) for number, pause in enumerate(pauses)] == [
        pytest.approx(1, abs=0.21)
    ] * 3


async def test_what_raises_counts_as_failed_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    queue, seen = WorkQueue[str](backoff=(0.001, 0.001)), []
    done = asyncio.Event()

    async def work(key: str) -> bool:
        seen.append(key)
        if len(seen) == 1:
            raise ValueError("defect")
        done.set()
        return True

    queue.add("a")
    async with working(queue, work):
        await asyncio.wait_for(done.wait(), NET)
    assert seen == ["a", "a"]
    assert "work on a failed" in caplog.text


async def test_of_two_times_the_sooner_counts() -> None:
    queue, gate = WorkQueue[str](), Gate()
    async with working(queue, gate):
        queue.add_after("a", 3600)
        queue.add_after("a", 0)
        queue.add_after("a", 3600)
        await asyncio.sleep(0.01)
        await settled(lambda: gate.begun == ["a"])
        queue.add_after("b", 3600)
        queue.add("b")
        await settled(lambda: gate.begun == ["a", "b"])


async def test_several_keys_are_worked_on_at_a_time_and_not_more() -> None:
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
