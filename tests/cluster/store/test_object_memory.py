import asyncio
import gc
import weakref

import pytest

from fleethook.cluster.store import object_memory
from fleethook.cluster.store.object_memory import GCFreezer, free_in_slices


def test_the_heap_is_frozen_each_time_the_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(object_memory, "_FREEZE_LIMIT", 10)
    monkeypatch.setattr(object_memory.gc, "collect", lambda generation: calls.append(f"collect {generation}"))
    monkeypatch.setattr(object_memory.gc, "freeze", lambda: calls.append("freeze"))
    freezer = GCFreezer()
    for expected in ([], ["collect 1", "freeze"], ["collect 1", "freeze"], ["collect 1", "freeze"] * 2):
        freezer.add(6)
        assert calls == expected


class Kept:
    """An object that can be referenced weakly."""


async def test_each_iteration_of_the_event_loop_frees_one_slice() -> None:
    objects = [Kept() for _ in range(2 * object_memory._SLICE + 1)]
    alive: weakref.WeakSet[Kept] = weakref.WeakSet(objects)
    gc.disable()
    try:
        left = []
        free_in_slices(objects)
        for _ in range(4):
            left.append(len(alive))
            await asyncio.sleep(0)
    finally:
        gc.enable()
    assert left == [object_memory._SLICE + 1, 1, 0, 0]


async def test_an_empty_list_needs_no_iteration() -> None:
    objects: list[Kept] = []
    free_in_slices(objects)
    assert objects == []
