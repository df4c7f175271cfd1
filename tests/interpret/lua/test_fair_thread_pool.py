"""Turns and shares of scripts in a pool of threads. Calls wait for the test, never for time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.interpret.access import InterpretError
from app.interpret.lua import fair_thread_pool
from app.interpret.lua.fair_thread_pool import FairThreadPool
from tests.waiting import NET


class Work:
    """Calls that run until the test ends them."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._go = threading.Semaphore(0)
        self._changed = threading.Semaphore(0)

    def of(self, name: str) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            self.started.append(name)
            self._changed.release()
            assert self._go.acquire(timeout=NET)
            return [name]

        return run

    def end(self, count: int = 1) -> None:
        self._go.release(count)

    async def wait_for(self, count: int) -> None:
        """Wait until ``count`` further calls have started."""
        for _ in range(count):
            assert await asyncio.to_thread(self._changed.acquire, timeout=NET)


@pytest.fixture
async def work() -> AsyncIterator[Work]:
    made = Work()
    yield made
    made.end(1000)


def ask(pool: FairThreadPool, work: Work, *names: str) -> list["asyncio.Task[Any]"]:
    return [asyncio.ensure_future(pool.run(name, work.of(name))) for name in names]


async def test_scripts_take_turns_regardless_of_arrival(work: Work) -> None:
    pool = FairThreadPool("turns", 1, share=1)
    tasks = ask(pool, work, *"aaaa", "b", "b", "c")
    for _ in tasks:
        await work.wait_for(1)
        work.end()
    assert [(await task)[0] for task in tasks] == [*"aaaabbc"]
    assert work.started == [*"aabcaba"]
    assert len(pool) == 0
    pool.close()


async def test_one_script_leaves_a_thread_to_the_others(work: Work) -> None:
    pool = FairThreadPool("share", 3, share=2)
    tasks = ask(pool, work, *"aaaa")
    await work.wait_for(2)
    assert work.started == ["a", "a"]
    tasks += ask(pool, work, "b")
    await work.wait_for(1)
    assert work.started == ["a", "a", "b"]
    work.end(len(tasks))
    await asyncio.gather(*tasks)
    pool.close()


async def test_waiting_calls_are_limited_in_total_and_for_each_script(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_thread_pool, "MAX_WAITING", 4)
    monkeypatch.setattr(fair_thread_pool, "MAX_WAITING_EACH", 3)
    pool = FairThreadPool("places", 1, share=1)
    tasks = ask(pool, work, *"aaa")
    await work.wait_for(1)
    for name, others in (("a", ""), ("c", "b")):
        tasks += ask(pool, work, *others)
        await asyncio.sleep(0)
        with pytest.raises(InterpretError, match="try again later") as caught:
            await pool.run(name, work.of(name))
        assert caught.value.code == 503
    work.end(len(tasks))
    await asyncio.gather(*tasks)
    pool.close()


async def test_cancelled_call_leaves_the_queue(work: Work) -> None:
    pool = FairThreadPool("gone", 1, share=1)
    running, gone, last = ask(pool, work, "a", "b", "c")
    await work.wait_for(1)
    gone.cancel()
    running.cancel()
    work.end(2)
    assert await last == ["c"]
    assert work.started == ["a", "c"]
    assert len(pool) == 0
    pool.close()


async def test_error_of_a_call_is_raised_to_its_caller(work: Work) -> None:
    pool = FairThreadPool("error", 1, share=1)

    def fail() -> list[Any]:
        raise InterpretError("no")

    with pytest.raises(InterpretError, match="no"):
        await pool.run("a", fail)
    work.end()
    assert await pool.run("a", work.of("a")) == ["a"]
    pool.close()
