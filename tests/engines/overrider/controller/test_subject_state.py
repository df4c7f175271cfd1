"""Tests of the state of a subject: its workloads, and whether a controller creates them."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.overrider.controller.subject_state import collect_state
from fleethook.engines.overrider.controller.workload_watch import Workloads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.subject_and_pools import DAEMONS_WITHOUT_CONTROLLER, has_no_daemon_controller
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import node_pool, overrider, pool, store_of, workload, yurt_app_daemon, yurt_app_set
from tests.engines.overrider.running import Fleet

BINDING = Binding("", YURT_APP_SET, "default", "demo")
COUNT = 2_000


def workloads_of(store: Store) -> Workloads:
    return Workloads(
        cast("Any", None), store, PlanCache(), per_second=50.0,
        every_cluster=False, now=lambda: datetime.now(UTC), scheduler=Fleet().clock,
    )  # fmt: skip


async def test_collecting_many_workloads_lets_others_in_and_finds_all_of_them() -> None:
    names = [f"p{number}" for number in range(COUNT)]
    store = store_of(yurt_app_set(pools=[pool(name) for name in names]), overrider())
    workloads = workloads_of(store)
    for name in names[1:]:
        made = workload(pool=name)
        made["metadata"] |= {"uid": name, "resourceVersion": "7"}
        workloads.source.informer(GroupKind("apps", "Deployment")).learn(made)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    at = await collect_state(BINDING, store=store, workloads=workloads)
    counting.cancel()
    assert len(at.keys) == COUNT - 1
    assert at.missing == ("p0",)
    assert turns >= COUNT // 500 - 1


NOBODY = (
    "no controller of OpenYurt reconciles YurtAppSets in this cluster, as none of them has a status: check that "
    "yurt-manager runs, and which controllers its argument --controllers disables"
)


def definition(**served: bool) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.apps.openyurt.io"},
        "spec": {"versions": [{"name": name, "served": value} for name, value in served.items()]},
    }


def in_version(document: dict[str, Any], version: str) -> dict[str, Any]:
    return {**document, "apiVersion": f"apps.openyurt.io/{version}"}


async def lack_of(kind: GroupKind, *objects: dict[str, Any]) -> str:
    """Return the reason why no controller creates the workloads of the subject demo."""
    store = store_of(*objects)
    at = await collect_state(Binding("", kind, "default", "demo"), store=store, workloads=workloads_of(store))
    assert at.missing == ("a",)
    return at.no_controller


SUBJECT, RULES = yurt_app_set(pools=[pool("a")]), overrider()
CONVERTED = {"currentRevision": "", "readyWorkloads": 0, "updatedWorkloads": 0, "totalWorkloads": 0, "conditions": []}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 1}, ""),
        ({"currentRevision": "a"}, ""),
        ({}, NOBODY),
        # The status that a conversion adds.
        (CONVERTED, NOBODY),
        ({"templateType": "Deployment", "replicas": 0}, NOBODY),
    ],
)
async def test_one_subject_with_a_status_shows_that_there_is_a_controller(
    status: dict[str, Any], expected: str
) -> None:
    daemon = {**yurt_app_daemon(), "status": {"currentRevision": "a"}}
    assert await lack_of(YURT_APP_SET, SUBJECT, RULES, daemon, {**yurt_app_set("b"), "status": status}) == expected


async def test_a_status_in_another_cluster_does_not_count() -> None:
    elsewhere = {**yurt_app_set("b"), "status": {"observedGeneration": 1}}
    elsewhere["metadata"] = {**elsewhere["metadata"], "annotations": {"kcp.io/cluster": "other"}}
    assert await lack_of(YURT_APP_SET, SUBJECT, RULES, elsewhere) == NOBODY


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], False),
        ([in_version(node_pool("a"), "v1beta1")], False),
        ([in_version(node_pool("a"), "v1beta2")], True),
        ([definition(v1alpha1=True, v1beta1=True)], False),
        ([definition(v1beta1=True, v1beta2=True)], True),
        ([definition(v1beta1=True, v1beta2=False)], False),
    ],
)
def test_node_pools_in_v1beta2_show_openyurt_1_7(objects: list[dict[str, Any]], *, expected: bool) -> None:
    assert has_no_daemon_controller(store_of(*objects), "") is expected


async def test_daemons_have_no_controller_since_1_7_in_spite_of_a_former_status() -> None:
    daemon = {**yurt_app_daemon("demo"), "status": {"currentRevision": "a"}}
    subject = {"apiVersion": daemon["apiVersion"], "kind": "YurtAppDaemon", "name": "demo"}
    objects = (daemon, overrider(subject=subject), node_pool("a", labels={"region": "east"}))
    assert await lack_of(YURT_APP_DAEMON, *objects) == ""
    assert await lack_of(YURT_APP_DAEMON, *objects, definition(v1beta2=True)) == DAEMONS_WITHOUT_CONTROLLER
