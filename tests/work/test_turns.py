"""Work that pauses, on the event loop and in a thread."""

import asyncio
import contextlib
import gc
import itertools
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from fleethook.work.pausing import Done, Slice, Work, begin, do_at_once
from fleethook.work.turns import DaemonThreads, Turns, Worker, call_in_daemon_thread, favour_event_loop, run_off_loop
from tests.waiting import NET, until


def test_the_future_has_the_result_of_the_thread() -> None:
    thread = call_in_daemon_thread(threading.current_thread, name="lookup").result(60)
    assert (thread.daemon, thread.name) == (True, "lookup")


def test_the_future_raises_the_exception_of_the_thread() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        call_in_daemon_thread(fail, name="fails").result(60)


def test_the_future_cannot_be_cancelled() -> None:
    go = threading.Event()
    result = call_in_daemon_thread(lambda: go.wait(60), name="waits")
    assert not result.cancel()
    go.set()
    assert result.result(60)


class Large:
    pass


async def test_a_failed_function_leaves_no_reference_cycle() -> None:
    def fail(_: Large) -> None:
        raise ValueError

    worker, large = Worker(), Large()
    kept = weakref.ref(large)
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            await worker.run("ws2", fail, large)
        del large
        await worker.run("ws2", int)
        assert kept() is None
    finally:
        gc.enable()


async def test_a_function_runs_in_the_thread_with_its_arguments() -> None:
    worker = Worker()
    assert await worker.run(
        "ws2", lambda a, b: (a + b, threading.current_thread() is threading.main_thread()), 1, 2
    ) == (3, False)


ENDLESS = """
from fleethook.work.turns import DaemonThreads

def never_ends():
    while True:
        pass

threads = DaemonThreads(2, "endless")
threads.submit(never_ends)
print(threads.submit(str, "other").result())
threads.close()
"""


def test_a_process_ends_while_a_function_never_returns() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False, timeout=NET)
    assert (ended.returncode, ended.stdout) == (0, "other\n")


async def test_closed_threads_end_and_take_no_function() -> None:
    go, names = threading.Event(), list[str]()

    def work() -> None:
        names.append(threading.current_thread().name)
        go.wait(60)

    threads = DaemonThreads(3, "closed")  # With two, the third function would wait for one of the others.
    calls = [threads.submit(work), threads.submit(work)]
    await until(lambda: len(names) == 2)
    threads.close()
    with pytest.raises(RuntimeError, match="the threads closed are closed"):
        threads.submit(int)
    go.set()
    for call in calls:
        call.result(NET)
    await until(lambda: not {*names} & {one.name for one in threading.enumerate()})
    assert sorted(names) == ["closed_0", "closed_1"]


async def test_the_threads_of_a_forgotten_worker_end() -> None:
    name = await Worker(name="forgotten").run("a", lambda: threading.current_thread().name)
    await until(lambda: gc.collect() is None or name not in [one.name for one in threading.enumerate()])


async def test_exceptions_are_raised_in_the_caller() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Worker().run("ws2", int, "x")


async def test_functions_run_one_after_the_other_in_turns_between_clusters() -> None:
    worker, started, go = Worker(), [], threading.Event()

    def work(name: str) -> None:
        started.append(name)
        go.wait(60)

    tasks = [asyncio.create_task(worker.run(name[0], work, name)) for name in ("a1", "a2", "a3", "b1")]
    while not started:
        await asyncio.sleep(0)
    assert started == ["a1"]
    go.set()
    await asyncio.gather(*tasks)
    assert started == ["a1", "a2", "b1", "a3"]


async def test_one_lane_leaves_a_thread_to_the_others() -> None:
    worker, started, go = Worker(3, share=2), [], threading.Event()

    def work(name: str) -> None:
        started.append(name)
        go.wait(60)

    tasks = [asyncio.create_task(worker.run("a", work, "a")) for _ in range(4)]
    while len(started) < 2:
        await asyncio.sleep(0)
    tasks.append(asyncio.create_task(worker.run("b", work, "b")))
    while len(started) < 3:
        await asyncio.sleep(0)
    assert started == ["a", "a", "b"]
    assert (len(worker), worker.count("a"), worker.count("b")) == (5, 4, 1)
    go.set()
    await asyncio.gather(*tasks)
    assert len(worker) == 0
    worker.close()


async def test_a_cancelled_caller_holds_the_turn_until_its_function_returns() -> None:
    worker, order, go = Worker(), [], threading.Event()

    def slow() -> None:
        order.append("begin")
        go.wait(60)
        order.append("end")

    first = asyncio.create_task(worker.run("a", slow))
    while not order:
        await asyncio.sleep(0)
    second = asyncio.create_task(worker.run("b", order.append, "next"))
    first.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (order, first.done()) == (["begin"], False)
    go.set()
    await second
    assert order == ["begin", "end", "next"]
    assert first.cancelled()


def test_the_switch_interval_is_only_shortened() -> None:
    before = sys.getswitchinterval()
    try:
        for given, expected in ((0.005, 0.0005), (0.0001, 0.0001)):
            sys.setswitchinterval(given)
            favour_event_loop()
            assert sys.getswitchinterval() == pytest.approx(expected, rel=0.05)
    finally:
        sys.setswitchinterval(before)


def work(name: str, slices: int, seen: list[str]) -> Work[str]:
    for number in range(slices):
        seen.append(f"{name}{number}")
        yield
    return name


def failing() -> Work[str]:
    yield
    raise ValueError("broken")


async def test_each_iteration_of_the_event_loop_runs_one_slice() -> None:
    seen: list[str] = []
    done = False

    async def others() -> None:
        while not done:
            seen.append("-")
            await asyncio.sleep(0)

    turns = Turns()
    other = asyncio.create_task(others())
    assert await asyncio.gather(turns.run(work("a", 3, seen)), turns.run(work("b", 3, seen))) == ["a", "b"]
    done = True
    await other
    assert sorted(one for one in seen if one != "-") == ["a0", "a1", "a2", "b0", "b1", "b2"]
    texts = "".join(seen)
    assert all(f"{first}{second}" not in texts for first in "012" for second in "ab"), texts
    assert texts.index("b0") < texts.index("a2")  # They take turns.


async def test_much_work_of_one_lane_takes_as_many_slices_as_little_work_of_another() -> None:
    turns, seen = Turns(), list[str]()
    crowd = [turns.run(work("a", 9, seen), lane="crowd") for _ in range(9)]
    await asyncio.gather(*crowd, turns.run(work("b", 3, seen), lane="other"))
    assert seen[: seen.index("b2")].count("b0") == 1
    assert seen.index("b2") <= 2 * 4


async def test_work_without_a_pause_is_one_slice_too() -> None:
    """20 subjects of a page of the console, each of them done in its first slice, held the event loop together."""
    iterations = 0
    ended: list[int] = []

    def short() -> Work[None]:
        ended.append(iterations)
        return
        yield

    async def count() -> None:
        nonlocal iterations
        while len(ended) < 20:
            iterations += 1
            await asyncio.sleep(0)

    turns = Turns()
    await asyncio.gather(count(), *(turns.run(short()) for _ in range(20)))
    assert len(set(ended)) == 20


async def test_pauses_and_slices_take_turns() -> None:
    seen: list[str] = []
    turns = Turns()

    async def step(name: str) -> None:
        for number in range(3):
            await turns.pause()
            seen.append(f"{name}{number}")

    async def others() -> None:
        while len(seen) < 9:
            counts.append(len(seen))
            await asyncio.sleep(0)

    counts: list[int] = []
    await asyncio.gather(step("a"), step("b"), step("c"), others())
    assert sorted(seen) == [f"{name}{number}" for name in "abc" for number in range(3)]
    # No two steps in one turn of the event loop.
    assert max(after - before for before, after in itertools.pairwise(counts)) == 1
    assert seen.index("c0") < seen.index("a2")


async def test_failed_or_cancelled_work_releases_its_turn() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="broken"):
        await turns.run(failing())
    cancelled = asyncio.create_task(turns.run(work("a", 1000, [])))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert await turns.run(work("b", 2, [])) == "b"


async def test_other_work_gets_the_thread_after_each_slice() -> None:
    done: list[str] = []

    def taking_turns(name: str) -> Work[str]:
        for _ in range(3):
            done.append(name)
            yield Slice.PURE
        return name

    worker = Worker()
    results = await asyncio.gather(*(run_off_loop(taking_turns(name), worker=worker, lane=name) for name in "abc"))
    assert results == ["a", "b", "c"]
    assert "".join(done) == "abcabcabc"


async def test_slices_that_read_the_store_run_on_the_event_loop() -> None:
    seen: list[bool] = []

    def mixed() -> Work[None]:
        for following in (Slice.READS_STORE, None, Slice.PURE):
            seen.append(threading.current_thread() is threading.main_thread())
            yield following
        seen.append(threading.current_thread() is threading.main_thread())

    await run_off_loop(mixed(), worker=Worker(), lane="")
    assert seen == [False, True, True, False]


async def test_slices_that_read_the_store_let_the_event_loop_in() -> None:
    seen: list[str] = []

    def reading() -> Work[None]:
        yield Slice.READS_STORE
        for _ in range(3):
            seen.append("slice")
            asyncio.get_running_loop().call_soon(seen.append, "other")
            yield

    await run_off_loop(reading(), worker=Worker(), lane="")
    assert seen == ["slice", "other"] * 3


def steps(name: str, count: int, done: list[str]) -> Work[str]:
    for _ in range(count):
        done.append(name)
        yield None
    return name


async def run(turns: Turns, work: Work[str], lane: str) -> str:
    return await begin(turns.share(work, lane=lane, worker=Worker()))


async def test_clusters_take_turns() -> None:
    turns, done = Turns(), list[str]()
    works = (run(turns, steps("ws2", 50, done), "ws2") for _ in range(20))
    found = await asyncio.gather(*works, run(turns, steps("ws3", 5, done), "ws3"))
    assert found == [*["ws2"] * 20, "ws3"]
    last = len(done) - 1 - done[::-1].index("ws3")
    # Each piece of work does its first slice at once. After that, a slice of ws2 is between two of ws3.
    assert done[:last].count("ws2") <= 20 + 2 * 5


async def test_each_iteration_of_the_event_loop_does_one_slice_of_shared_work() -> None:
    turns, done = Turns(), list[str]()
    works = [asyncio.create_task(run(turns, steps("ws2", 50, done), "ws2")) for _ in range(20)]
    await asyncio.sleep(0)
    most = 0
    while not all(work.done() for work in works):
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert most <= 2


async def test_cancelled_shared_work_ends_where_it_pauses_and_releases_its_turn() -> None:
    turns, done, ended = Turns(), list[str](), list[str]()

    def noting() -> Work[str]:
        try:
            return (yield from steps("ws2", 10, done))
        finally:
            ended.append("ended")

    works = [asyncio.create_task(run(turns, noting(), "ws2")) for _ in range(5)]
    await asyncio.sleep(0)
    for one in works[:4]:
        one.cancel()
    await asyncio.wait(works[:4])
    assert len(ended) == 4
    assert await works[4] == "ws2"


async def test_long_functions_run_in_a_thread() -> None:
    def work() -> Work[Any]:
        name = yield lambda: threading.current_thread().name
        yield None
        return name

    assert (await run(Turns(), work(), "ws2")).startswith("long-work")
    assert do_at_once(work()) == "MainThread"


async def test_shared_work_handles_the_failure_of_a_long_function_and_of_an_awaitable() -> None:
    def broken() -> None:
        raise ValueError("broken")

    async def break_later() -> None:
        raise ValueError("broken later")

    def work() -> Work[str]:
        found = []
        for step in (broken, break_later()):
            try:
                yield step
            except ValueError as error:
                found.append(str(error))
        return ", ".join(found)

    assert await run(Turns(), work(), "ws2") == "broken, broken later"


def test_a_mark_of_a_slice_is_no_pause_before_the_first_pause() -> None:
    def marked(*pauses: None) -> Work[str]:
        yield Slice.READS_STORE
        yield from pauses
        yield Slice.PURE
        return "done"

    turns = Turns()
    assert begin(turns.share(marked(), lane="")) == Done("done")
    pauses = [pause.close() for pause in turns.share(marked(None), lane="")]
    assert len(pauses) == 2
