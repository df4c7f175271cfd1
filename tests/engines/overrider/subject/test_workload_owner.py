"""Tests of the owners of workloads, and of orphans: workloads that lost theirs."""

from typing import Any

import pytest

from fleethook.cluster.partial_and_stale_objects import PartialBuilder, PartialObject
from fleethook.cluster.store import Store
from fleethook.engines.overrider.controller.overrider_conditions import ORPHANS_COMMAND
from fleethook.engines.overrider.subject.workload_owner import (
    ORPHAN_INDEXES,
    Binding,
    Owner,
    find_owner,
    former_bindings,
    is_orphan,
)
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import API, API_V1BETA1, UID, entry, image, owner, patch, workload
from tests.engines.overrider.running import Fleet

OTHER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1", "controller": True}


def test_the_controlling_reference_wins_wherever_it_is() -> None:
    first = owner("YurtAppDaemon", "agent", controller=False)
    assert find_owner({"ownerReferences": [OTHER, first, owner()]}) == Owner(YURT_APP_SET, "demo", UID, API)


def test_without_a_controlling_reference_the_first_subject_is_the_owner() -> None:
    references = [owner("YurtAppDaemon", "agent", controller=False), owner(controller=False)]
    assert find_owner({"ownerReferences": references}) == Owner(YURT_APP_DAEMON, "agent", UID, API)


@pytest.mark.parametrize(
    "references",
    [
        None,
        "demo",
        [None, "demo", []],
        [OTHER],
        [owner(apiVersion="apps.openyurt.io/v9")],
        [owner("YurtAppDaemon", apiVersion=API_V1BETA1)],
        [owner(name="")],
        [owner(name=1)],
    ],
)
def test_anything_else_is_no_owner(references: Any) -> None:
    assert find_owner({"ownerReferences": references}) is None


SIDE = [patch("add", "/spec/template/spec/containers/-", {"name": "side", "image": "busybox:1"})]
MINUTE = 60.0
SUBJECT = Binding("", YURT_APP_SET, "default", "demo")


def orphan(name: str = "demo-hangzhou-bcdfg", pool: str = "hangzhou", **metadata: Any) -> dict[str, Any]:
    made = workload(pool=pool, owners=[])
    made["metadata"].update({"name": name, "annotations": {"fleethook.io/rendered": "abc"}, **metadata})
    return made


def build_partial(document: dict[str, Any]) -> PartialObject:
    return PartialBuilder().build(document)


def find_names(binding: Binding, *documents: dict[str, Any]) -> list[str]:
    store = Store(ORPHAN_INDEXES.values())
    for document in documents:
        store.put(document)
    return [one.name for index in ORPHAN_INDEXES.values() for one in store.find(index, binding.cluster, binding)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"annotations": {}}, False),
        ({"labels": {}}, False),
        ({"deletionTimestamp": "2026-06-01T00:00:00Z"}, False),
        ({"ownerReferences": [owner()]}, False),
        ({"ownerReferences": [owner(apiVersion="apps.openyurt.io/v1beta1", controller=False)]}, False),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Thing", "name": "x", "controller": True}]}, False),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Thing", "name": "x"}]}, True),
    ],
)
def test_an_orphan_was_rendered_for_a_node_pool_and_has_no_owner(change: dict[str, Any], *, expected: bool) -> None:
    assert is_orphan(build_partial(orphan(**change))) is expected


@pytest.mark.parametrize(
    ("name", "pool", "subject"),
    [
        ("demo-hangzhou-bcdfg", "hangzhou", "demo"),
        ("demo-a-a-a-bcdfg", "a-a", "demo-a"),
        ("demo-a-a-bcdfg", "a", "demo-a"),
        ("demo-a-b-bcdfg", "b", "demo-a"),
        ("demo-a-b-bcdfg", "a-b", "demo"),
        ("by-hand", "hangzhou", ""),
    ],
)
def test_name_and_pool_identify_the_former_owner(name: str, pool: str, subject: str) -> None:
    bindings = former_bindings("c", build_partial(orphan(name, pool)))
    expected = [Binding("c", kind, "default", subject) for kind in (YURT_APP_DAEMON, YURT_APP_SET)] if subject else []
    assert bindings == expected


def test_the_label_of_a_v1beta1_set_identifies_its_former_owner() -> None:
    labels = {"apps.openyurt.io/pool-name": "hangzhou", "apps.openyurt.io/ref-yurtappset": "renamed"}
    assert former_bindings("", build_partial(orphan(labels=labels))) == [SUBJECT._replace(name="renamed")]


def test_orphans_are_found_by_cluster_namespace_and_subject() -> None:
    here, stateful = orphan(), {**orphan("demo-b-bcdfg", "b"), "kind": "StatefulSet"}
    other_namespace, other_subject = orphan(namespace="edge"), orphan("demos-hangzhou-bcdfg")
    owned = workload()
    elsewhere = orphan("demo-c-bcdfg", "c")
    elsewhere["metadata"]["annotations"]["kcp.io/cluster"] = "other"
    names = find_names(SUBJECT, here, stateful, other_namespace, other_subject, owned, elsewhere)
    assert names == ["demo-hangzhou-bcdfg", "demo-b-bcdfg"]


# In a running controller.


async def wait_until_rendered(fleet: Fleet, *pools: str) -> str:
    subject = fleet.subject(pools=pools)
    fleet.override(entry("*", patches=SIDE))
    await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
    return subject


def release(fleet: Fleet, pool: str) -> None:
    fleet.server.edit(fleet.path(pool_name=pool), {"metadata": {"ownerReferences": None}})


def replace(fleet: Fleet, pool: str) -> str:
    made = fleet.workload("demo", pool)
    made["metadata"]["name"] += "2"
    return fleet.server.put(made, review=True)


async def test_the_status_names_released_workloads_until_they_are_deleted() -> None:
    fleet = Fleet()
    async with fleet.leader():
        await wait_until_rendered(fleet, "beijing", "hangzhou")
        for pool in ("beijing", "hangzhou"):
            release(fleet, pool)
            replace(fleet, pool)
        await fleet.wait_for(lambda: fleet.condition()[1] == "OrphanedWorkloads")
        assert fleet.condition() == (
            "False", "OrphanedWorkloads",
            (
                "2 of 2 workloads; 2 rendered workloads have no owner any more and keep their overrides: "
                "Deployment demo-beijing-x in beijing, Deployment demo-hangzhou-x in hangzhou; delete them when their "
                f"replacements run ('{ORPHANS_COMMAND}' lists all workloads; orphans have no owner)"
            ),
        )  # fmt: skip
        assert fleet.status()["summary"] == "2/2"
        assert fleet.server.events[-1] == ("OrphanedWorkloads", fleet.condition()[2])
        written = dict(fleet.server.writes)
        fleet.server.delete(fleet.path(pool_name="beijing"))
        await fleet.wait_for(lambda: fleet.condition()[2].startswith("2 of 2 workloads; a rendered"), seconds=5)
        fleet.server.delete(fleet.path(pool_name="hangzhou"))
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered", seconds=5)
        assert fleet.server.writes[fleet.path()] == written[fleet.path()]


async def test_deleting_the_overrider_does_not_change_orphans_and_an_event_names_them() -> None:
    fleet = Fleet()
    async with fleet.leader():
        await wait_until_rendered(fleet, "hangzhou")
        release(fleet, "hangzhou")
        replace(fleet, "hangzhou")
        await fleet.wait_for(lambda: fleet.condition()[1] == "OrphanedWorkloads")
        before = fleet.server[fleet.path()]
        fleet.server.delete(fleet.rule())
        await fleet.wait(MINUTE)
        assert fleet.server[fleet.path()] == before
        told = [message for reason, message in fleet.server.events if reason == "OrphanedWorkloads"]
        assert len(told) == 2
        assert "Deployment demo-hangzhou-x in hangzhou" in told[-1]
        await fleet.wait(30 * MINUTE)
        assert [reason for reason, _ in fleet.server.events].count("OrphanedWorkloads") == 2


async def test_the_status_names_orphans_of_a_deleted_subject() -> None:
    """After ``kubectl delete --cascade=orphan`` the workloads remain without an owner."""
    fleet = Fleet()
    async with fleet.leader():
        subject = await wait_until_rendered(fleet, "hangzhou")
        release(fleet, "hangzhou")
        fleet.server.delete(subject)
        await fleet.wait_for(lambda: fleet.condition("Bound")[1] == "SubjectNotFound")
        await fleet.wait(MINUTE)
        assert fleet.condition()[:2] == ("False", "OrphanedWorkloads")
        assert "Deployment demo-hangzhou-x in hangzhou" in fleet.condition()[2]


async def test_workloads_of_a_former_subject_of_the_same_name_are_not_touched() -> None:
    fleet = Fleet()
    async with fleet.leader():
        subject = await wait_until_rendered(fleet, "hangzhou")
        recreated = fleet.server[subject]
        recreated["metadata"]["uid"] = "another"
        fleet.server.delete(subject)
        fleet.server.put(recreated)
        written = dict(fleet.server.writes)
        fleet.override(entry("*", items=[image("nginx", "nginx:2")]))
        await fleet.wait(9)
        assert fleet.condition()[1] == "WorkloadsMissing"
        assert "demo-hangzhou-x" not in fleet.condition()[2]
        await fleet.wait_for(lambda: "demo-hangzhou-x in hangzhou; delete it" in fleet.condition()[2], seconds=5)
        assert fleet.condition()[:2] == ("False", "WorkloadsMissing")
        assert fleet.status()["summary"] == "0/1"
        assert fleet.server.writes[fleet.path()] == written[fleet.path()]
