"""Functions in threads, in turns between lanes."""

import asyncio
import contextlib
import gc
import sys
import threading
import weakref

import pytest

from fleethook.work.worker import Worker, call_in_daemon_thread, favour_event_loop


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


async def test_a_started_function_keeps_its_turn_until_it_returns() -> None:
    worker, go = Worker(threads=2, share=1), threading.Event()
    started = worker.start("ws1", go.wait, 60)
    assert started is not None
    started.cancel()
    assert worker.start("ws1", int) is None
    assert worker.count("ws1") == 1
    other = worker.start("ws2", int)
    assert other is not None
    assert await other == 0
    go.set()
    assert await worker.run("ws1", int) == 0
