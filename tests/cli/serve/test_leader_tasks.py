"""The decision to compete for the Lease, and the metrics of a candidate."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.app import create_app
from fleethook.cli.serve.leader_tasks import _make_registrar, candidate_metrics
from fleethook.cli.serve.serve import needs_leader
from fleethook.cluster.apiserver_connection import Connection
from fleethook.settings import Settings

KUBECONFIG: dict[str, Any] = {"kubeconfig": Path("k")}
INSTALLED: dict[str, Any] = {**KUBECONFIG, "service": "fleet/fleethook"}


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({**INSTALLED, "registration": "ca-bundle", "engines": {"crds"}}, True),
        ({**INSTALLED, "controller": True}, True),
        ({**INSTALLED, "controller": True, "engines": {"dispatch"}}, False),
        ({**INSTALLED, "interpreter_registration": "own"}, True),
        ({**INSTALLED, "interpreter_registration": "own", "engines": {"overrider"}}, False),
        ({**INSTALLED, "rule_registration": True}, True),
        ({**INSTALLED, "rule_registration": True, "engines": {"overrider"}}, False),
        (KUBECONFIG, False),
    ],
)
def test_a_server_needs_a_leader_for_registration_and_for_the_tasks_of_enabled_engines(
    given: dict[str, Any], *, needed: bool
) -> None:
    assert needs_leader(create_app(Settings(**given), log=None)) is needed


def test_the_leader_registers_changed_rules_at_once_and_for_their_owner() -> None:
    app = create_app(Settings(in_cluster=True, service="fleet/hook", rule_registration=True), log=None)
    changing = _make_registrar(app, Connection(Path("k")), bytes)._changing
    assert changing.changed is app.parts.registration_changed
    assert changing.owner == "hook"


def test_the_metrics_of_a_candidate_have_the_queues_of_all_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(Settings(), log=None)
    monkeypatch.setattr(app.engines["overrider"], "queue_length", lambda: 2)
    families = [family for one in candidate_metrics(app, lambda: True) for family in one.collect()]
    values = {family.name: family.samples[0].value for family in families}
    assert (values["fleethook_leader"], values["fleethook_controller_queue_length"]) == (1, 2)
    assert values["fleethook_controller_touched"] == 0
