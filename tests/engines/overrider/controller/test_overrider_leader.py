"""The counts of a leader and of a former leader."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.app import create_app
from fleethook.engines.overrider.controller.overrider_leader import OverriderLeader
from fleethook.engines.overrider.overrider_server import OverriderServer
from fleethook.server.engine_server import Leadership
from fleethook.settings import Settings


async def test_a_former_leader_keeps_the_counts_and_drops_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(kubeconfig=Path("k"), controller=True, kcp=True)
    engine = create_app(settings, log=None).find_engine(OverriderServer)
    leader = OverriderLeader(engine.context, engine.plans, None)
    seen: list[Any] = []

    class Controller:
        queue = ("a", "b")
        reconciled = 1
        workloads = SimpleNamespace(touched=2, failed=3)

        async def run(self) -> None:
            seen.append((leader.queue_length(), count(leader)))

    monkeypatch.setattr(leader, "_make_controller", lambda *_: Controller())
    assert (leader.queue_length(), count(leader)) == (0, (0, 0, 0))
    await leader.run(Leadership(cast("Any", None), lambda: b"", None))
    assert seen == [(2, (1, 2, 3))]
    assert (leader.queue_length(), count(leader)) == (0, (1, 2, 3))


async def test_a_leader_without_a_controller_has_no_task() -> None:
    engine = create_app(Settings(kubeconfig=Path("k"), controller=False), log=None).find_engine(OverriderServer)
    await engine.lead(Leadership(cast("Any", None), lambda: b"", None))
    assert engine.queue_length() == 0


def count(leader: OverriderLeader) -> tuple[int, ...]:
    """Return the counters: reconciled, touched, failed."""
    return tuple(int(family.samples[0].value) for one in leader.collectors() for family in one.collect())
