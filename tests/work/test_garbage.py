"""The garbage collector runs in small steps."""

import gc
from collections.abc import Iterator

import pytest

from fleethook.work import garbage, turns
from fleethook.work.garbage import GCFreezer, pause_garbage_collector, settle_garbage_collector
from fleethook.work.turns import Turns


@pytest.fixture(autouse=True)
def restore_garbage_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_objects_that_are_read_during_a_pause_are_exempt_from_collection() -> None:
    gc.unfreeze()
    with pause_garbage_collector():
        assert not gc.isenabled()
        objects = [[number] for number in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(objects)


def test_settling_exempts_loaded_objects_and_enables_the_collector() -> None:
    gc.unfreeze()
    gc.disable()
    settle_garbage_collector()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    youngest, older, _ = gc.get_threshold()
    assert youngest > 700
    # A run over a million objects that survived took 190 ms.
    assert youngest * older <= 100_000


def test_the_heap_is_frozen_each_time_the_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(garbage, "_FREEZE_LIMIT", 10)
    monkeypatch.setattr(garbage.gc, "collect", lambda generation: calls.append(f"collect {generation}"))
    monkeypatch.setattr(garbage.gc, "freeze", lambda: calls.append("freeze"))
    freezer = GCFreezer()
    for expected in ([], ["collect 1", "freeze"], ["collect 1", "freeze"], ["collect 1", "freeze"] * 2):
        freezer.add(6)
        assert calls == expected


async def _replace(objects: list[list[int]], pauses: Turns) -> None:
    """Replace each object, with a pause after each one."""
    for at in range(len(objects)):
        objects[at] = [at]
        await pauses.pause()


async def test_work_that_replaces_older_objects_leaves_few_young_ones() -> None:
    objects = [[at] for at in range(8 * turns._PAUSES_OF_A_COLLECTION)]
    settle_garbage_collector()
    await _replace(objects, Turns())
    young = {id(one) for one in gc.get_objects(generation=0)}
    assert sum(id(one) in young for one in objects) <= turns._PAUSES_OF_A_COLLECTION


async def test_survivors_are_exempt_from_collection_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_FREEZE_LIMIT", 2 * turns._PAUSES_OF_A_COLLECTION)
    objects = [[at] for at in range(8 * turns._PAUSES_OF_A_COLLECTION)]
    settle_garbage_collector()
    await _replace(objects, Turns())
    collectable = {id(one) for one in gc.get_objects()}
    assert sum(id(one) in collectable for one in objects) <= 3 * turns._PAUSES_OF_A_COLLECTION


@pytest.mark.parametrize("settled", [True, False])
def test_only_a_process_that_has_settled_collects_survivors(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    # An earlier test of this process may have started a server.
    gc.set_threshold(700, 10, 10)
    if settled:
        settle_garbage_collector()
    monkeypatch.setattr(garbage.gc, "collect", calls.append)
    garbage.collect_survivors()
    assert calls == ([1] if settled else [])
    gc.disable()
    garbage.collect_survivors()
    assert len(calls) == settled
