import pytest

from fleethook.cluster.store import gc_freeze
from fleethook.cluster.store.gc_freeze import GCFreezer


def test_the_heap_is_frozen_each_time_the_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(gc_freeze, "_FREEZE_LIMIT", 10)
    monkeypatch.setattr(gc_freeze.gc, "collect", lambda generation: calls.append(f"collect {generation}"))
    monkeypatch.setattr(gc_freeze.gc, "freeze", lambda: calls.append("freeze"))
    freezer = GCFreezer()
    for expected in ([], ["collect 1", "freeze"], ["collect 1", "freeze"], ["collect 1", "freeze"] * 2):
        freezer.add(6)
        assert calls == expected
