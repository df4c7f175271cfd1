"""The overrider controller with a real apiserver between it and the webhook: edits, deletions, drift, kills."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import entry, patch
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl
from tests.e2e.fleet import OPENYURT, run_registered_server
from tests.e2e.subject import TO_2, Subject
from tests.serving import Server
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_registered_server(plane, tmp_path_factory.mktemp("controller")) as running:
        yield running


@pytest.fixture
def subject(server: Server, admin: Api, namespace: str) -> Subject:
    return Subject(admin, namespace, ["beijing", "hangzhou", "shanghai"])


def test_a_new_overrider_renders_only_the_workloads_of_its_subject(subject: Subject) -> None:
    before = subject.versions()
    subject.override(entry("beijing", "hangzhou", items=TO_2))
    wait_for(lambda: subject.images() == {"beijing": "nginx:2.0", "hangzhou": "nginx:2.0", "shanghai": "nginx:1.0"})
    wait_for(subject.observed)
    assert subject.versions()["shanghai"] == before["shanghai"]
    assert subject.condition("Bound")[:2] == ("True", "SubjectFound")
    assert subject.condition("Rendered") == ("True", "AllRendered", "2 of 2 workloads")
    assert subject.status()["summary"] == "2/2"
    pools = {one["pool"]: one for one in subject.status()["pools"]}
    for name in ("beijing", "hangzhou"):
        stored = subject.workload(name)["metadata"]
        assert pools[name] == {
            "pool": name, "kind": "Deployment", "workload": stored["name"],
            "hash": stored["annotations"]["fleethook.io/rendered"], "observedGeneration": stored["generation"],
        }  # fmt: skip


def test_a_pool_that_fails_to_render_is_reported_and_does_not_stop_the_others(subject: Subject) -> None:
    """The template changed after the overrider was admitted, so that it no longer applies."""
    path = f"{OPENYURT}/namespaces/{subject.namespace}/yurtappsets/demo"

    def template(member: bool | None) -> None:
        subject.admin.merge(path, {"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"paused": member}}}}})

    template(True)
    subject.override(entry("*", items=TO_2), entry("beijing", patches=[patch("remove", "/spec/paused")]))
    wait_for(lambda: subject.status().get("summary") == "3/3")
    template(None)
    wait_for(lambda: subject.condition("Rendered")[1] == "NotRendered")
    name = subject.workload("beijing")["metadata"]["name"]
    message = subject.condition("Rendered")[2]
    assert message.startswith(f"2 of 3 workloads; {name} in beijing: ")
    assert "entries[1].patches[0]: remove /spec/paused: member 'paused' does not exist" in message
    assert subject.status()["summary"] == "2/3"
    assert set(subject.images().values()) == {"nginx:2.0"}
    template(True)
    wait_for(lambda: subject.condition("Rendered")[:2] == ("True", "AllRendered"))


def test_kubectl_shows_the_state_of_overriders(subject: Subject, plane: ControlPlane, binaries: Path) -> None:
    subject.override(entry("beijing", "hangzhou", items=TO_2))
    wait_for(lambda: subject.status().get("summary") == "2/2")
    kubeconfig = plane.kubeconfig("admin")
    header, row = kubectl(binaries, kubeconfig, "get", "yao", "-n", subject.namespace).splitlines()
    assert header.split() == ["NAME", "SUBJECT", "NAME", "BOUND", "RENDERED", "WORKLOADS", "AGE"]
    assert row.split()[:-1] == ["demo1", "YurtAppSet", "demo", "True", "True", "2/2"]
