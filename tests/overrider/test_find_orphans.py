"""Which workloads of node pools are orphans."""

from typing import Any

from app.overrider.orphans import find_orphans
from tests.builders import node_pool, owner, pool, store_of, workload, yurt_app_daemon, yurt_app_set

STORE = store_of(
    yurt_app_set(pools=[pool("hangzhou")]), yurt_app_daemon(), node_pool("hangzhou", {"region": "east"}), node_pool("beijing")
)  # fmt: skip


def reasons(*workloads: dict[str, Any]) -> list[str]:
    return [one.reason for one in find_orphans(workloads, STORE)]


def test_a_workload_that_its_subject_keeps_is_no_orphan() -> None:
    assert reasons(workload(), workload("StatefulSet"), workload(owners=[owner("YurtAppDaemon", "agent")])) == []


def test_a_released_workload_is_an_orphan() -> None:
    released = workload(owners=[])
    released["metadata"]["annotations"]["fleethook.io/rendered"] = "abc"
    (orphan,) = find_orphans([released], STORE)
    assert (orphan.key.name, orphan.pool, orphan.reason, orphan.rendered) == (
        "demo-hangzhou-x", "hangzhou", "it has no owner", True,
    )  # fmt: skip


def test_a_workload_whose_owner_is_gone_is_an_orphan() -> None:
    assert reasons(workload(owners=[owner(name="former")])) == ["its owner, YurtAppSet former, is gone"]


def test_a_workload_of_a_former_owner_of_the_same_name_is_an_orphan() -> None:
    assert reasons(workload(owners=[owner(uid="another")])) == ["its owner, YurtAppSet demo, is gone"]


def test_a_workload_in_a_pool_that_its_owner_lacks_is_an_orphan() -> None:
    assert reasons(workload(pool="beijing")) == ["its owner, YurtAppSet demo, has no node pool beijing"]
    assert reasons(workload(pool="beijing", owners=[owner("YurtAppDaemon", "agent")])) == [
        "its owner, YurtAppDaemon agent, has no node pool beijing"
    ]


def test_workloads_of_others_are_no_orphans() -> None:
    united = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "UnitedDeployment", "name": "u", "controller": True}
    assert reasons(workload(owners=[united]), workload(pool=None, owners=[])) == []


def test_a_workload_that_is_being_deleted_is_no_orphan() -> None:
    gone = [workload(owners=[]), workload(owners=[owner(name="former")])]
    for one in gone:
        one["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
    assert reasons(*gone) == []


def test_an_owner_of_a_version_that_is_not_known_still_owns() -> None:
    assert reasons(workload(owners=[owner(apiVersion="apps.openyurt.io/v9")])) == []
