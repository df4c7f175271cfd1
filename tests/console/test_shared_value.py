import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.console.shared_value import Watch
from fleethook.model.gvk import GroupKind
from fleethook.work.threads_and_gc import Worker
from tests.waiting import NET, until

POD = GroupKind("", "Pod")


def pod(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}


async def test_a_change_during_the_computation_is_not_missed() -> None:
    store = Store()
    begun, go_on = threading.Event(), threading.Event()

    def read(names: list[str]) -> list[str]:
        begun.set()
        go_on.wait()
        return names

    watch = Watch(store, lambda: partial(read, [key.name for key in store.keys(POD)]))
    first = asyncio.create_task(watch.get())
    await asyncio.to_thread(begun.wait)
    store.put(pod("late"))
    go_on.set()
    assert await first == ([], False, "")
    assert await watch.get() == (["late"], True, "")


def watch_names(store: Store) -> Watch[list[str]]:
    return Watch(store, lambda: [key.name for key in store.keys(POD)].copy)


async def test_a_watch_computes_once_asked_for_and_again_after_a_change() -> None:
    store = Store()
    watch = watch_names(store)
    assert watch.find() == (None, False, "")
    await until(lambda: watch.find().is_current)
    assert watch.find().value == []
    store.put(pod("a"))
    assert watch.find() == ([], False, "")
    await until(lambda: watch.find().is_current)
    assert watch.find().value == ["a"]


async def test_a_watch_can_be_waited_for() -> None:
    store = Store()
    watch = watch_names(store)
    assert await watch.get() == ([], True, "")
    store.put(pod("a"))
    assert await watch.get() == (["a"], True, "")


@pytest.mark.parametrize("fails_early", [True, False])
async def test_a_failure_is_named_and_not_repeated_without_a_change(fails_early: bool) -> None:
    calls = []

    def fail() -> Any:
        calls.append(1)
        raise ValueError("broken")

    watch: Watch[Any] = Watch(Store(), fail if fails_early else lambda: fail)
    assert await watch.get() == (None, True, "ValueError: broken")
    assert watch.find() == await watch.get() == (None, True, "ValueError: broken")
    assert len(calls) == 1


async def test_pages_need_not_wait_for_a_watch() -> None:
    ended, worker = threading.Event(), Worker()
    watch = Watch(Store(), lambda: lambda: ended.wait(NET))
    watch.find()
    await asyncio.sleep(0)
    assert await worker.run("", lambda: "answered") == "answered"
    assert not watch.find().is_current
    ended.set()
    await until(lambda: watch.find().is_current)
