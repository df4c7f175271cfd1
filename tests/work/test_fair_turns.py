import asyncio
import threading
from typing import Any

from fleethook.work.fair_turns import Turns, Work, do_at_once, do_in_turns
from fleethook.work.worker import Worker


def steps(name: str, count: int, done: list[str]) -> Work[str]:
    for _ in range(count):
        done.append(name)
        yield None
    return name


async def test_clusters_take_turns() -> None:
    turns, worker, done = Turns(), Worker(), list[str]()

    async def work(cluster: str, count: int) -> str:
        return await do_in_turns(steps(cluster, count, done), turns=turns, worker=worker, cluster=cluster)

    found = await asyncio.gather(*(work("ws2", 50) for _ in range(20)), work("ws3", 5))
    assert found == [*["ws2"] * 20, "ws3"]
    last = len(done) - 1 - done[::-1].index("ws3")
    # Each piece of work does its first slice at once. After that, a slice of ws2 is between two of ws3.
    assert done[:last].count("ws2") <= 20 + 2 * 5


async def test_each_iteration_of_the_event_loop_does_one_slice() -> None:
    turns, worker, done = Turns(), Worker(), list[str]()
    works = [
        asyncio.create_task(do_in_turns(steps("ws2", 50, done), turns=turns, worker=worker, cluster="ws2"))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    most = 0
    while not all(work.done() for work in works):
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert most <= 2


async def test_cancelled_work_releases_its_turn() -> None:
    turns, worker, done = Turns(), Worker(), list[str]()
    works = [
        asyncio.create_task(do_in_turns(steps("ws2", 10, done), turns=turns, worker=worker, cluster="ws2"))
        for _ in range(5)
    ]
    await asyncio.sleep(0)
    for work in works[:4]:
        work.cancel()
    assert await works[4] == "ws2"


async def test_long_functions_run_in_a_thread() -> None:
    def work() -> Work[Any]:
        name = yield lambda: threading.current_thread().name
        yield None
        return name

    found = await do_in_turns(work(), turns=Turns(), worker=Worker(), cluster="ws2")
    assert found.startswith("long-work")
    assert do_at_once(work()) == "MainThread"
