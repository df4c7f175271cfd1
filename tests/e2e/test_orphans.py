"""Workloads that OpenYurt's controller released, on a real apiserver, which generates their names."""

from collections.abc import Iterator

import pytest

from tests.builders import entry
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import run_registered_server
from tests.e2e.subject import TO_2, Subject
from tests.e2e.workloads import images, path_of, workload_of
from tests.serving import Server
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_registered_server(plane, tmp_path_factory.mktemp("orphans")) as running:
        yield running


@pytest.fixture
def subject(server: Server, admin: Api, namespace: str) -> Subject:
    made = Subject(admin, namespace, ["beijing", "hangzhou"])
    made.override(entry("*", items=TO_2))
    wait_for(lambda: made.status().get("summary") == "2/2")
    return made


def release(subject: Subject, name: str) -> str:
    """Remove the owner reference of a pool's workload, as OpenYurt 1.6 does, and create another workload."""
    path = subject.paths[name]
    subject.admin.merge(path, {"metadata": {"ownerReferences": None}})
    made = workload_of(subject.stored, name)
    subject.paths[name] = path_of(subject.admin.create(path_of(made), made))
    return path


def test_released_workloads_are_named_and_keep_their_overrides_after_a_deletion(subject: Subject) -> None:
    released = [release(subject, name) for name in ("beijing", "hangzhou")]
    names = [path.rpartition("/")[2] for path in released]
    wait_for(lambda: subject.condition("Rendered")[:2] == ("False", "OrphanedWorkloads"))
    wait_for(
        lambda: subject.condition("Rendered")[2].startswith("2 of 2 workloads; 2 rendered workloads have no owner")
    )
    message = subject.condition("Rendered")[2]
    assert all(f"Deployment {name} in " in message for name in names)
    assert subject.status()["summary"] == "2/2"
    wait_for(lambda: ("YurtAppOverrider", "OrphanedWorkloads", message) in subject.events())
    assert set(subject.images().values()) == {"nginx:2.0"}

    before = [subject.admin[path] for path in released]
    subject.delete_override()
    wait_for(lambda: set(subject.images().values()) == {"nginx:1.0"})
    assert [subject.admin[path] for path in released] == before
    assert {images(one)["nginx"] for one in before} == {"nginx:2.0"}


def test_the_condition_is_true_again_when_the_orphan_is_deleted(subject: Subject) -> None:
    released = release(subject, "hangzhou")
    wait_for(lambda: subject.condition("Rendered")[1] == "OrphanedWorkloads")
    subject.admin.delete(released)
    wait_for(lambda: subject.condition("Rendered") == ("True", "AllRendered", "2 of 2 workloads"))
