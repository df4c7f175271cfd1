"""The status of overriders without effect names the reason, in a running controller."""

from typing import Any

import pytest

from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.engines.overrider.subject.subject_and_pools import DAEMONS_WITHOUT_CONTROLLER
from tests.builders import (
    API_V1BETA1,
    entry,
    node_pool,
    owner,
    patch,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.running import Fleet

SIDE = [patch("add", "/spec/template/spec/containers/-", {"name": "side", "image": "busybox:1"})]
EAST = {"region": "east"}
MINUTE = 60.0


def fleet_of(*, app_sets: str = "v1beta1", node_pools: str = "v1beta1") -> Fleet:
    """Return a fleet whose apiserver serves these versions."""
    fleet = Fleet()
    fleet.server.served = {"yurtappsets": app_sets, "nodepools": node_pools}
    return fleet


def in_v1beta1(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "apiVersion": API_V1BETA1}


def override_daemon(fleet: Fleet) -> None:
    fleet.override(entry("*", patches=SIDE), subject="agent", kind="YurtAppDaemon")


def node_pool_of_1_7(name: str) -> dict[str, Any]:
    return {**node_pool(name, EAST), "apiVersion": "apps.openyurt.io/v1beta2"}


def set_observed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "status": {"observedGeneration": 1, "currentRevision": "a"}}


def as_v1beta1(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["ownerReferences"][0]["apiVersion"] = API_V1BETA1
    made["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] = "demo"
    return made


def sides(document: dict[str, Any]) -> bool:
    return [one["name"] for one in document["spec"]["template"]["spec"]["containers"]] == ["nginx", "side"]


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (yurt_app_set(pools=[]), "spec.topology.pools is empty"),
        (yurt_app_set_v1beta1(pools=["a", "b"]), "there is no NodePool a, b, which spec.pools names"),
        (
            yurt_app_set_v1beta1(pools=[], selector={"matchLabels": EAST}),
            "no NodePool has the labels that spec.nodepoolSelector selects",
        ),
    ],
)
async def test_the_condition_of_a_subject_without_node_pools_is_false_at_once(
    subject: dict[str, Any], text: str
) -> None:
    fleet = fleet_of(app_sets=subject["apiVersion"].rpartition("/")[2])
    fleet.server.put(subject)
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait_for(lambda: fleet.condition()[0], seconds=5)
        assert fleet.condition() == ("False", "NoNodePools", f"YurtAppSet demo has no node pool: {text}")
        assert fleet.status()["summary"] == "0/0"
        assert ("NoNodePools", fleet.condition()[2]) in fleet.server.events


async def test_a_node_pool_that_is_created_later_is_counted_and_the_others_are_named() -> None:
    fleet = fleet_of()
    fleet.server.put(set_observed(yurt_app_set_v1beta1(pools=["a", "b"])))
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait_for(lambda: fleet.condition()[1] == "NoNodePools")
        fleet.server.put(in_v1beta1(node_pool("a")))
        await fleet.wait_for(lambda: fleet.condition()[1] == "WorkloadsMissing")
        assert fleet.condition()[0] == "Unknown"
        assert fleet.condition()[2] == (
            "0 of 1 workloads; there is no NodePool b, which YurtAppSet demo names in spec.pools; "
            "no workload in node pool a"
        )
        fleet.server.put(as_v1beta1(fleet.workload("demo", "a")), review=True)
        await fleet.wait_for(lambda: fleet.condition()[1] == "AllRendered")
        assert fleet.status()["summary"] == "1/1"
        assert "there is no NodePool b" in fleet.condition()[2]


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_no_controller_is_assumed_if_no_subject_has_a_status(*, elsewhere: bool) -> None:
    fleet = Fleet()
    fleet.server.put(yurt_app_set())
    other = yurt_app_set("other")
    fleet.server.put(set_observed(other) if elsewhere else other)
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait_for(lambda: fleet.condition()[0])
        assert fleet.condition()[:2] == ("Unknown", "WorkloadsMissing")
        assert fleet.status()["summary"] == "0/2"
        await fleet.wait(MINUTE)
        status, reason, message = fleet.condition()
        assert (status, reason) == ("False", "WorkloadsMissing" if elsewhere else "NoController")
        expected = (
            "the controller of YurtAppSet demo has not created it in time" if elsewhere else "none of them has a status"
        )
        assert (
            f"no workload in node pool hangzhou, beijing: {'' if elsewhere else 'no controller of OpenYurt'}" in message
        )
        assert expected in message


async def test_daemons_on_openyurt_1_7_have_no_controller_and_are_not_nudged() -> None:
    fleet = fleet_of(node_pools="v1beta2")
    daemon = fleet.server.put(set_observed(yurt_app_daemon()))
    fleet.server.put(node_pool_of_1_7("a"))
    async with fleet.leader() as controller:
        override_daemon(fleet)
        await fleet.wait_for(lambda: fleet.condition(subject="agent")[0])
        assert fleet.condition(subject="agent")[:2] == ("Unknown", "WorkloadsMissing")
        await fleet.wait_for(lambda: fleet.condition(subject="agent")[0] == "False")
        assert fleet.condition(subject="agent")[1:] == (
            "NoController", f"0 of 1 workloads; no workload in node pool a: {DAEMONS_WITHOUT_CONTROLLER}",
        )  # fmt: skip
        looked = controller.reconciled
        await fleet.wait(30 * MINUTE)
        assert fleet.nudges(daemon) is None
        assert controller.reconciled <= looked + 4


async def test_workloads_of_a_daemon_from_before_openyurt_1_7_stay_rendered_and_keep_their_template() -> None:
    fleet = fleet_of(node_pools="v1beta2")
    daemon = fleet.server.put(set_observed(yurt_app_daemon()))
    fleet.server.put(node_pool_of_1_7("a"))
    made = workload(pool="a", owners=[owner("YurtAppDaemon", "agent")])
    made["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] = "a"
    made["spec"]["template"]["spec"]["nodeSelector"] = {"apps.openyurt.io/nodepool": "a"}
    path = fleet.server.put(made)
    async with fleet.leader():
        override_daemon(fleet)
        await fleet.wait_for(lambda: fleet.condition(subject="agent")[1] == "AllRendered")
        assert fleet.condition(subject="agent")[2] == f"1 of 1 workloads; {DAEMONS_WITHOUT_CONTROLLER}"
        before = fleet.server[path]["spec"]
        fleet.server.edit(
            daemon, {"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"minReadySeconds": 9}}}}}
        )
        await fleet.wait_for(lambda: fleet.condition(subject="agent")[1] == "NotRendered")
        assert fleet.condition(subject="agent")[2] == (
            "0 of 1 workloads; demo-a-x in a: keeps its former template, because no controller writes the changed one; "
            f"{DAEMONS_WITHOUT_CONTROLLER}"
        )
        writes = fleet.server.writes[path]
        await fleet.wait(30 * MINUTE)
        assert (fleet.server[path]["spec"], fleet.server.writes[path]) == (before, writes)
        fleet.server.delete(fleet.rule("agent"))
        await fleet.wait_for(lambda: fleet.server[path]["spec"] == made["spec"])


async def test_an_upgrade_from_1_4_to_1_6_is_reported() -> None:
    """The controller of 1.6 releases the workloads of 1.4 and creates new ones, which v1beta1 owns."""
    fleet = fleet_of(app_sets="v1alpha1")
    pools = ("a", "b", "c")
    former = fleet.subject(pools=pools)
    for name in pools:
        fleet.server.put(in_v1beta1(node_pool(name)))
    async with fleet.leader():
        fleet.override(entry("*", patches=SIDE))
        await fleet.wait_for(lambda: fleet.status().get("summary") == "3/3")
    fleet.server.served["yurtappsets"] = "v1beta1"
    fleet.server.put(set_observed(yurt_app_set_v1beta1(pools=pools)))
    fleet.server.delete(former)
    fleet.source = KubernetesSource(RESOURCES, fleet.server, fleet.objects, absent_seconds=10.0)
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.condition()[1] == "OwnedByOtherVersion")
        assert fleet.status()["summary"] == "0/3"
        new = []
        for name in pools:
            fleet.server.edit(fleet.path(pool_name=name), {"metadata": {"ownerReferences": None}})
            made = as_v1beta1(fleet.workload("demo", name))
            made["metadata"]["name"] = f"demo-{name}-new"
            new.append(fleet.server.put(made, review=True))
        await fleet.wait_for(lambda: fleet.condition()[1] == "OrphanedWorkloads")
        assert fleet.status()["summary"] == "3/3"
        assert all(f"Deployment demo-{name}-x in {name}" in fleet.condition()[2] for name in pools)
        assert [sides(fleet.server[path]) for path in new] == [True] * 3
        fleet.server.delete(fleet.rule())
        await fleet.wait_for(lambda: not any(sides(fleet.server[path]) for path in new))
        await fleet.wait(MINUTE)
        assert [sides(fleet.server[fleet.path(pool_name=name)]) for name in pools] == [True] * 3
        told = [message for reason, message in fleet.server.events if reason == "OrphanedWorkloads"]
        assert "3 rendered workloads have no owner any more" in told[-1]
