"""The tasks of the leader by the settings, and the counts for its metrics."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleethook.cli.serve.leader import Leader, lists_without_leader, runs_selection
from fleethook.cluster.leader_metrics import ControllerCounts, LeaderState
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


def test_a_former_leader_keeps_the_counts_and_drops_the_queue() -> None:
    elector = SimpleNamespace(leading=True)
    leader = Leader(cast("Any", elector))
    assert (leader.state(), leader.counts()) == (LeaderState(leading=True), ControllerCounts())
    workloads = SimpleNamespace(touched=2, failed=3)
    leader.controller = cast("Any", SimpleNamespace(queue=["a", "b"], reconciled=1, workloads=workloads))
    assert (leader.state(), leader.counts()) == (LeaderState(leading=True, queued=2), ControllerCounts(1, 2, 3))
    leader.end()
    elector.leading = False
    assert (leader.state(), leader.counts()) == (LeaderState(leading=False), ControllerCounts(1, 2, 3))
