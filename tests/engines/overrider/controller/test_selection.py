"""The replica that keeps the selection."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.overrider.controller.selection import lists_without_leader, runs_selection
from fleethook.settings import Settings

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "leader", "replicas"),
    [
        ({**INSTALLED, "registration": "ca-bundle"}, True, False),
        ({**INSTALLED, "registration": "all"}, True, False),
        ({**INSTALLED, "controller": True}, True, False),
        ({**INSTALLED, "registration": "ca-bundle", "controller": False}, False, True),
        ({**INSTALLED, "controller": False}, False, True),
        ({**INSTALLED, "controller": False, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "engines": {"dispatch"}}, False, False),
        ({**INSTALLED, "controller": True, "kcp": True}, False, False),
        ({**INSTALLED, "controller": False, "kcp": True}, False, False),
        # A server without an address of its own writes nothing.
        (KUBECONFIG, False, False),
        ({**KUBECONFIG, "controller": False}, False, False),
        ({"manifests": Path()}, False, False),
    ],
)
def test_the_leader_keeps_the_selection_and_without_a_controller_each_replica_does(
    given: dict[str, Any], *, leader: bool, replicas: bool
) -> None:
    settings = Settings(**given)
    assert (runs_selection(settings), lists_without_leader(settings)) == (leader, replicas)
