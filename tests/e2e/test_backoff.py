"""Another webhook that reverts each render: one write for each workload."""

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.builders import container, entry, image
from tests.e2e.audit import Audit
from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import WEBHOOKS
from tests.e2e.foreign_webhook import foreign_webhook
from tests.e2e.openyurt import V1_5, V1Alpha1
from tests.e2e.restartable_server import RestartableServer, run_restartable_server
from tests.e2e.scenario import BEIJING, SENTINEL, Scenario, scenario, subject_of
from tests.waiting import wait_for

# The rate limit allows 50 writes a second, and an edit is handled within two.
CONFLICTS, MAX_WRITES_BEFORE = 100, 2 * 50
TO_2 = entry("*", items=[image("nginx", "nginx:2.0")])


def revert(workload: dict[str, Any]) -> dict[str, Any]:
    """Set another image than fleethook does, except for the sentinel."""
    if workload["metadata"]["labels"].get("app") == SENTINEL:
        return workload
    made = copy.deepcopy(workload)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "rival:1"
    return made


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartableServer]:
    with run_restartable_server(plane, tmp_path_factory.mktemp("backoff"), FLEETHOOK_LEASE_DURATION="3") as made:
        yield made


@pytest.fixture
def demo(
    plane: ControlPlane, server: RestartableServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenario]:
    with scenario(plane.api(), release=V1_5) as made:
        made.start_sentinel()
        with foreign_webhook(plane.api(), tmp_path_factory.mktemp("rival"), made.namespace, revert):
            yield made


def create(demo: Scenario, *names: str) -> None:
    """Create subjects, each with a workload and an overrider that the foreign webhook reverts."""
    path = V1Alpha1().path(demo.namespace)

    def one(name: str) -> None:
        demo.api.create(path, subject_of(name, demo.namespace, {"containers": [container()]}, BEIJING))

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(one, names))
        wait_for(
            lambda: all(demo.workloads(name) for name in names), what="OpenYurt's controller creates the workloads"
        )
        list(executor.map(lambda name: demo.override(TO_2, name=name), names))


def without_times(workload: dict[str, Any]) -> dict[str, Any]:
    """Return a workload without the members that tell the time of its last write."""
    metadata = {k: v for k, v in workload["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {**workload, "metadata": metadata}


def test_a_value_that_another_webhook_reverts_is_written_once(
    plane: ControlPlane, demo: Scenario, server: RestartableServer
) -> None:
    """The next leader asks once more, which changes nothing, and so does this leader when webhooks change."""
    audit = Audit(plane)
    create(demo, "demo")
    wait_for(lambda: not demo.rendered() and demo.status().get("pools"), what="the status reports the failure")
    assert "did not keep /spec/template/spec/containers/" in str(demo.status()["pools"])
    before = demo.workloads()[BEIJING]
    name = before["metadata"]["name"]
    assert audit.counts(demo.namespace)[name] == 1
    server.restart()
    wait_for(lambda: audit.counts(demo.namespace)[name] == 2, what="the next leader asks")
    demo.handle_sentinel()
    assert without_times(demo.workloads()[BEIJING]) == without_times(before)
    demo.api.call("DELETE", f"{WEBHOOKS}/mutatingwebhookconfigurations/zz-foreign-{demo.namespace}")
    wait_for(demo.rendered, what="the value is stored without the other webhook")
    assert audit.counts(demo.namespace)[name] == 3
