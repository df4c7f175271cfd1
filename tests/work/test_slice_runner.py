"""Sliced work on the event loop and in a thread."""

import asyncio
import itertools
import threading

import pytest

from fleethook.work.slice_runner import Slices, run_off_loop
from fleethook.work.slices import Slice, Sliced
from fleethook.work.worker import Worker


def work(name: str, slices: int, seen: list[str]) -> Sliced[str]:
    for number in range(slices):
        seen.append(f"{name}{number}")
        yield
    return name


def failing() -> Sliced[str]:
    yield
    raise ValueError("broken")


async def test_each_iteration_of_the_event_loop_runs_one_slice() -> None:
    seen: list[str] = []
    done = False

    async def others() -> None:
        while not done:
            seen.append("-")
            await asyncio.sleep(0)

    slices = Slices()
    other = asyncio.create_task(others())
    assert await asyncio.gather(slices.run(work("a", 3, seen)), slices.run(work("b", 3, seen))) == ["a", "b"]
    done = True
    await other
    assert sorted(one for one in seen if one != "-") == ["a0", "a1", "a2", "b0", "b1", "b2"]
    texts = "".join(seen)
    assert all(f"{first}{second}" not in texts for first in "012" for second in "ab"), texts
    assert texts.index("b0") < texts.index("a2")  # They take turns.


async def test_much_work_of_one_lane_takes_as_many_slices_as_little_work_of_another() -> None:
    slices, seen = Slices(), list[str]()
    crowd = [slices.run(work("a", 9, seen), lane="crowd") for _ in range(9)]
    await asyncio.gather(*crowd, slices.run(work("b", 3, seen), lane="other"))
    assert seen[: seen.index("b2")].count("b0") == 1
    assert seen.index("b2") <= 2 * 4


async def test_work_without_a_pause_is_one_slice_too() -> None:
    """20 subjects of a page of the console, each of them done in its first slice, held the event loop together."""
    turns = 0
    ended: list[int] = []

    def short() -> Sliced[None]:
        ended.append(turns)
        return
        yield

    async def count() -> None:
        nonlocal turns
        while len(ended) < 20:
            turns += 1
            await asyncio.sleep(0)

    slices = Slices()
    await asyncio.gather(count(), *(slices.run(short()) for _ in range(20)))
    assert len(set(ended)) == 20


async def test_pauses_and_slices_take_turns() -> None:
    seen: list[str] = []
    slices = Slices()

    async def step(name: str) -> None:
        for number in range(3):
            await slices.pause()
            seen.append(f"{name}{number}")

    async def others() -> None:
        while len(seen) < 9:
            turns.append(len(seen))
            await asyncio.sleep(0)

    turns: list[int] = []
    await asyncio.gather(step("a"), step("b"), step("c"), others())
    assert sorted(seen) == [f"{name}{number}" for name in "abc" for number in range(3)]
    # No two steps in one turn of the event loop.
    assert max(after - before for before, after in itertools.pairwise(turns)) == 1
    assert seen.index("c0") < seen.index("a2")


async def test_failed_or_cancelled_work_releases_its_turn() -> None:
    slices = Slices()
    with pytest.raises(ValueError, match="broken"):
        await slices.run(failing())
    cancelled = asyncio.create_task(slices.run(work("a", 1000, [])))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert await slices.run(work("b", 2, [])) == "b"


async def test_other_work_gets_the_thread_after_each_slice() -> None:
    done: list[str] = []

    def taking_turns(name: str) -> Sliced[str]:
        for _ in range(3):
            done.append(name)
            yield Slice.PURE
        return name

    worker = Worker()
    results = await asyncio.gather(*(run_off_loop(taking_turns(name), worker=worker, turn=name) for name in "abc"))
    assert results == ["a", "b", "c"]
    assert "".join(done) == "abcabcabc"


async def test_slices_that_read_the_store_run_on_the_event_loop() -> None:
    seen: list[bool] = []

    def mixed() -> Sliced[None]:
        for following in (Slice.READS_STORE, None, Slice.PURE):
            seen.append(threading.current_thread() is threading.main_thread())
            yield following
        seen.append(threading.current_thread() is threading.main_thread())

    await run_off_loop(mixed(), worker=Worker(), turn="")
    assert seen == [False, True, True, False]


async def test_slices_that_read_the_store_let_the_event_loop_in() -> None:
    seen: list[str] = []

    def reading() -> Sliced[None]:
        yield Slice.READS_STORE
        for _ in range(3):
            seen.append("slice")
            asyncio.get_running_loop().call_soon(seen.append, "other")
            yield

    await run_off_loop(reading(), worker=Worker(), turn="")
    assert seen == ["slice", "other"] * 3
