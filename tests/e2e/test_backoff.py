"""Another webhook that reverts each render: one write for each workload."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import container, entry, image
from tests.e2e.audit import Audit
from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import WEBHOOKS
from tests.e2e.foreign_webhook import foreign_webhook
from tests.e2e.installation import Installation, run_installation
from tests.e2e.openyurt import V1_5, V1Alpha1
from tests.e2e.scenario import BEIJING, SENTINEL, Scenario, scenario, subject_of
from tests.waiting import wait_for

TO_2 = entry("*", items=[image("nginx", "nginx:2.0")])


def revert(workload: dict[str, Any]) -> dict[str, Any]:
    """Set another image than fleethook does, except for the sentinel."""
    if workload["metadata"]["labels"].get("app") == SENTINEL:
        return workload
    made = copy.deepcopy(workload)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "rival:1"
    return made


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with run_installation(plane, tmp_path_factory.mktemp("backoff")) as made:
        yield made


@pytest.fixture
def demo(plane: ControlPlane, server: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with scenario(plane.api(), release=V1_5) as made:
        made.start_sentinel()
        with foreign_webhook(plane.api(), tmp_path_factory.mktemp("rival"), made.namespace, revert):
            yield made


def create(demo: Scenario) -> None:
    """Create a subject with a workload and an overrider that the foreign webhook reverts."""
    demo.api.create(
        V1Alpha1().path(demo.namespace), subject_of("demo", demo.namespace, {"containers": [container()]}, BEIJING)
    )
    wait_for(demo.workloads, what="OpenYurt's controller creates the workload")
    demo.override(TO_2)


def without_times(workload: dict[str, Any]) -> dict[str, Any]:
    """Return a workload without the members that tell the time of its last write."""
    metadata = {k: v for k, v in workload["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {**workload, "metadata": metadata}


def test_a_value_that_another_webhook_reverts_is_written_once(
    plane: ControlPlane, demo: Scenario, server: Installation
) -> None:
    """The next leader asks once more, which changes nothing, and so does this leader when webhooks change."""
    audit = Audit(plane)
    create(demo)
    wait_for(lambda: not demo.rendered() and demo.status().get("pools"), what="the status reports the failure")
    assert "did not keep /spec/template/spec/containers/" in str(demo.status()["pools"])
    before = demo.workloads()[BEIJING]
    name = before["metadata"]["name"]
    assert audit.counts(demo.namespace)[name] == 1
    with server.away():
        pass
    wait_for(lambda: audit.counts(demo.namespace)[name] == 2, what="the next leader asks")
    demo.handle_sentinel()
    assert without_times(demo.workloads()[BEIJING]) == without_times(before)
    demo.api.call("DELETE", f"{WEBHOOKS}/mutatingwebhookconfigurations/zz-foreign-{demo.namespace}")
    wait_for(demo.rendered, what="the value is stored without the other webhook")
    assert audit.counts(demo.namespace)[name] == 3
