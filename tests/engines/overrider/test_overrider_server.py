"""The overrider engine in a server: its checks and tasks by the settings."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.app import create_app
from fleethook.engines.overrider.overrider_server import OverriderServer
from fleethook.settings import Settings

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "tasks", "leads", "selects"),
    [
        ({}, [], False, False),
        ({"manifests": Path("m")}, ["compilation of plans"], False, False),
        ({**INSTALLED, "registration": "all"}, ["compilation of plans"], True, True),
        ({**INSTALLED, "controller": False}, ["compilation of plans", "selection"], False, True),
    ],
)
def test_the_settings_decide_about_tasks(
    given: dict[str, Any], tasks: list[str], *, leads: bool, selects: bool
) -> None:
    engine = create_app(Settings(**given), log=None).find_engine(OverriderServer)
    found = list(engine.tasks())
    for _, work in found:
        work.close()
    assert ([name for name, _ in found], engine.leads, engine.selects) == (tasks, leads, selects)


def test_a_server_without_objects_has_no_checks() -> None:
    engine = create_app(Settings(), log=None).find_engine(OverriderServer)
    assert list(engine.checks()) == []
    assert (engine.warmup, engine.conflicts) == (None, None)
