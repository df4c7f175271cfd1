"""Who writes the selection of workloads, by the settings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.cli.leader import Leader, selects, withdraws_selection
from app.control.leader_metrics import ControllerCounts, LeaderState
from app.settings import Settings

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "leader", "withdraws"),
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
        # A server that somebody starts beside an installation writes nothing.
        (KUBECONFIG, False, False),
        ({**KUBECONFIG, "controller": False}, False, False),
        ({"manifests": Path()}, False, False),
    ],
)
def test_the_leader_selects_where_the_controller_runs_and_others_take_back_where_it_was_switched_off(
    given: dict[str, Any], *, leader: bool, withdraws: bool
) -> None:
    settings = Settings(**given)
    assert (selects(settings), withdraws_selection(settings)) == (leader, withdraws)


def test_a_replica_that_no_longer_leads_keeps_the_counts_and_drops_the_queue() -> None:
    elector = SimpleNamespace(leading=True)
    leader = Leader(cast("Any", elector))
    assert (leader.state(), leader.counts()) == (LeaderState(leading=True), ControllerCounts())
    workloads = SimpleNamespace(touched=2, failed=3)
    leader.controller = cast("Any", SimpleNamespace(queue=["a", "b"], reconciled=1, workloads=workloads))
    assert (leader.state(), leader.counts()) == (LeaderState(leading=True, queued=2), ControllerCounts(1, 2, 3))
    leader.end()
    elector.leading = False
    assert (leader.state(), leader.counts()) == (LeaderState(leading=False), ControllerCounts(1, 2, 3))
