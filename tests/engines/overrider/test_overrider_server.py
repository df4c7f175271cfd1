"""The overrider engine in a server: its checks and tasks by the settings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.app import create_app
from fleethook.engines.overrider.overrider_server import OverriderServer
from fleethook.server.engine_server import Leadership
from fleethook.settings import Settings

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "tasks", "leads", "selects"),
    [
        ({}, [], False, False),
        ({"manifests": Path("m")}, [], False, False),
        ({**INSTALLED, "registration": "all"}, [], True, True),
        ({**INSTALLED, "controller": False}, ["selection"], False, True),
    ],
)
def test_the_settings_decide_about_tasks(
    given: dict[str, Any], tasks: list[str], *, leads: bool, selects: bool
) -> None:
    engine = create_app(Settings(**given), log=None).engines["overrider"]
    found = list(engine.tasks())
    for _, work in found:
        work.close()
    assert ([name for name, _ in found], engine.leads, engine.selects) == (tasks, leads, selects)


def test_a_server_without_objects_has_no_checks() -> None:
    engine = create_app(Settings(), log=None).engines["overrider"]
    assert list(engine.checks()) == []
    assert engine.conflicts is None


async def test_a_former_leader_keeps_the_counts_and_drops_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(kubeconfig=Path("k"), controller=True, kcp=True)
    leader = create_app(settings, log=None).engines["overrider"]
    assert isinstance(leader, OverriderServer)
    seen: list[Any] = []

    class Controller:
        queue = ("a", "b")
        reconciled = 1
        workloads = SimpleNamespace(touched=2, failed=3)

        async def run(self) -> None:
            seen.append((leader.queue_length(), count(leader)))

    monkeypatch.setattr(leader, "_make_controller", lambda *_: Controller())
    assert (leader.queue_length(), count(leader)) == (0, (0, 0, 0))
    await leader.lead(Leadership(cast("Any", None), lambda: b"", None))
    assert seen == [(2, (1, 2, 3))]
    assert (leader.queue_length(), count(leader)) == (0, (1, 2, 3))


async def test_a_leader_without_a_controller_has_no_task() -> None:
    engine = create_app(Settings(kubeconfig=Path("k"), controller=False), log=None).engines["overrider"]
    await engine.lead(Leadership(cast("Any", None), lambda: b"", None))
    assert engine.queue_length() == 0


def count(leader: OverriderServer) -> tuple[int, ...]:
    """Return the counters: reconciled, touched, failed."""
    return tuple(int(family.samples[0].value) for one in leader.leader_collectors() for family in one.collect())
