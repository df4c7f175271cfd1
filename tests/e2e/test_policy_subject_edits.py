"""Edits of the subject and of NodePool labels while policies apply the overrider."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleethook.model.openyurt import PARTIAL_SUFFIX, RENDERED_ANNOTATION
from tests.builders import entry, image, node_pool, overrider, yurt_app_daemon
from tests.e2e.cluster import Api
from tests.e2e.fleet import OPENYURT
from tests.e2e.installation import Installation
from tests.e2e.subject import TO_2, Subject
from tests.e2e.test_policy_modes import AUTO, POLICIES, POOLS, applied, create, is_about, subject, wait_for_policy
from tests.e2e.workloads import images, path_of
from tests.waiting import wait_for

__all__ = ["subject"]

_REVISION = "example.com/revision"


def edit_template(subject: Subject, *, revision: str, tag: str) -> None:
    """Write the pod template of the subject."""
    pod = {
        "metadata": {"labels": {"app": "demo"}, "annotations": {_REVISION: revision}},
        "spec": {"containers": [{"name": "nginx", "image": tag}]},
    }
    edit_subject(subject, {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": pod}}}})


def edit_subject(subject: Subject, spec: dict[str, Any]) -> None:
    path = f"{OPENYURT}/namespaces/{subject.namespace}/yurtappsets/demo"
    subject.stored = subject.admin.merge(path, {"spec": spec})


def hash_of(workload: dict[str, Any]) -> str:
    return str(workload["metadata"]["annotations"].get(RENDERED_ANNOTATION, ""))


def wait_for_hashes(admin: Api, subject: Subject, made: list[dict[str, Any]]) -> None:
    """Wait until workloads have the hash that the policy of the subject writes now."""
    wait_for_policy(admin, subject)
    pools = {one["metadata"]["labels"]["apps.openyurt.io/pool-name"] for one in made}
    wanted = {pool: hash_of(create(admin, subject, pool)) for pool in pools}
    assert all(one and not one.endswith(PARTIAL_SUFFIX) for one in wanted.values()), wanted

    def is_current(one: dict[str, Any]) -> bool:
        return hash_of(admin[path_of(one)]) == wanted[one["metadata"]["labels"]["apps.openyurt.io/pool-name"]]

    wait_for(lambda: all(map(is_current, made)), what="all workloads have the hash of the policy")


@pytest.fixture
def covered(admin: Api, subject: Subject, installation: Installation) -> Iterator[Subject]:
    """A subject whose overrider sets an image in all node pools, by a policy."""
    with installation.up(**AUTO):
        subject.override(entry("*", items=TO_2))
        wait_for_policy(admin, subject)
        yield subject


def test_after_an_edit_of_the_template_each_new_workload_has_it_and_the_override(admin: Api, covered: Subject) -> None:
    made: list[dict[str, Any]] = []
    for number in range(4):
        # Even edits of a member that the entry overrides: the undo has to follow.
        revision = str(number)
        edit_template(covered, revision=revision, tag=f"nginx:1.{number}")
        made = [create(admin, covered, POOLS[n % 2]) for n in range(20)]
        assert [images(one)["nginx"] for one in made] == ["nginx:2.0"] * 20
        assert {one["spec"]["template"]["metadata"]["annotations"][_REVISION] for one in made} == {revision}
    wait_for_hashes(admin, covered, made)
    covered.delete_override()
    wait_for(
        lambda: {images(admin[path_of(one)])["nginx"] for one in made} == {"nginx:1.3"},
        what="the undo restores the image of the last template",
    )


def test_after_an_edit_of_the_pools_each_new_workload_has_it_and_the_override(admin: Api, covered: Subject) -> None:
    made: list[dict[str, Any]] = []
    for replicas in (3, 5):
        edit_subject(covered, {"topology": {"pools": [{"name": name, "replicas": replicas} for name in POOLS]}})
        made = [create(admin, covered, POOLS[n % 2]) for n in range(10)]
        assert {(images(one)["nginx"], one["spec"]["replicas"]) for one in made} == {("nginx:2.0", replicas)}
    # No policy knows the third pool at first.
    pools = [*POOLS, "shanghai"]
    edit_subject(covered, {"topology": {"pools": [{"name": name, "replicas": 5} for name in pools]}})
    made += [create(admin, covered, pools[n % 3]) for n in range(12)]
    assert {(images(one)["nginx"], one["spec"]["replicas"]) for one in made} == {("nginx:2.0", 5)}
    wait_for_hashes(admin, covered, made)


class Daemon(Subject):
    """A YurtAppDaemon, which selects node pools by a label."""

    def __init__(self, admin: Api, namespace: str, *, names: list[str]) -> None:
        self.admin, self.namespace, self.paths, self.names = admin, namespace, {}, names
        made = yurt_app_daemon("demo")
        made["metadata"]["namespace"] = namespace
        made["spec"]["nodepoolSelector"] = {"matchLabels": {"fleet": namespace}}
        self.stored = admin.create(f"{OPENYURT}/namespaces/{namespace}/yurtappdaemons", made)

    def override(self, *entries: dict[str, Any]) -> None:
        kind = {"apiVersion": self.stored["apiVersion"], "kind": self.stored["kind"], "name": "demo"}
        made = overrider(*entries, subject=kind)
        made["metadata"]["namespace"] = self.namespace
        self.admin.apply(self.rule, made)

    def select(self, *pools: str) -> None:
        """Set the label of these node pools, and remove it from the others."""
        for name in self.names:
            label = self.namespace if name in pools else None
            self.admin.merge(f"{OPENYURT}/nodepools/{name}", {"metadata": {"labels": {"fleet": label}}})


@pytest.fixture
def daemon(admin: Api, crds: None, namespace: str) -> Iterator[Daemon]:
    names = [f"{namespace}-{name}" for name in (*POOLS, "shanghai")]
    for name in names:
        admin.create(f"{OPENYURT}/nodepools", node_pool(name))
    made = Daemon(admin, namespace, names=names)
    yield made
    admin.call("DELETE", made.rule)
    for path in [*applied(admin, made), *(f"{OPENYURT}/nodepools/{name}" for name in names)]:
        admin.call("DELETE", path)


def test_after_an_edit_of_nodepool_labels_each_new_workload_of_a_selected_pool_has_the_override(
    admin: Api, daemon: Daemon, installation: Installation
) -> None:
    first, second, third = daemon.names
    entries = [entry(name, items=[image("nginx", f"nginx:{n}.0")]) for n, name in enumerate(daemon.names, 2)]
    expected = {name: f"nginx:{n}.0" for n, name in enumerate(daemon.names, 2)}
    with installation.up(**AUTO):
        daemon.select(first)
        daemon.override(*entries)
        wait_for_policy(admin, daemon)
        made: list[dict[str, Any]] = []
        for pools in ((first, second), (second, third), daemon.names):
            daemon.select(*pools)
            made = [create(admin, daemon, pools[n % len(pools)]) for n in range(12)]
            assert [images(one)["nginx"] for one in made] == [expected[pools[n % len(pools)]] for n in range(12)]
        wait_for_hashes(admin, daemon, made)
        wait_for(
            lambda: third in json.dumps([one for one in admin[POLICIES]["items"] if is_about(one, daemon)]),
            what="a policy knows the node pool that was selected last",
        )


def test_an_update_that_removes_a_label_of_the_template_does_not_escape_the_override(
    admin: Api, covered: Subject
) -> None:
    """The policy selects workloads by these labels, and the webhook is exempt from workloads that it has rendered."""
    made = create(admin, covered, "beijing")
    for tag in ("nginx:drifted", "nginx:again"):
        del made["metadata"]["labels"]["app"], made["metadata"]["resourceVersion"]
        made["spec"]["template"]["spec"]["containers"][0]["image"] = tag
        made = admin.replace(path_of(made), made)
        assert (images(made)["nginx"], made["metadata"]["labels"]["app"]) == ("nginx:2.0", "demo"), tag


def test_the_webhook_warns_of_an_update_that_removes_the_label_of_the_node_pool(admin: Api, covered: Subject) -> None:
    """Without the label, the node pool is unknown, so no policy writes to the workload."""
    made = create(admin, covered, "beijing")
    del made["metadata"]["labels"]["apps.openyurt.io/pool-name"], made["metadata"]["resourceVersion"]
    status, _, warnings = admin.call("PUT", path_of(made), made)
    assert status == 200
    assert any("no label apps.openyurt.io/pool-name" in one for one in warnings), warnings
