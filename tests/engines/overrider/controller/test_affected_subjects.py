"""Tests of the changes that queue a subject."""

import copy
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from tests.builders import entry, image, node_pool, owner, yurt_app_daemon
from tests.engines.overrider.apiserver import is_workload, path_of
from tests.engines.overrider.running import Fleet

TO_2 = [image("nginx", "nginx:2.0")]
MINUTE = 60.0
FAILED = APIError(500, "InternalError", "conversion webhook failed")


class Unreadable:
    """Refuses the lists of some kinds."""

    def __init__(self, fleet: Fleet, *plurals: str) -> None:
        self.plurals = set(plurals)
        fleet.server.refuse = self._refuse

    def _refuse(self, method: str, path: str) -> APIError | None:
        return FAILED if method == "GET" and path.rsplit("/", 1)[-1] in self.plurals else None


def with_daemon(fleet: Fleet) -> str:
    """Add a YurtAppDaemon with a workload in pool hangzhou, and overriders for both subjects; return its workload."""
    fleet.subject()
    fleet.server.put(node_pool("hangzhou", {"region": "east"}, taints=[{"key": "edge", "effect": "NoSchedule"}]))
    fleet.server.put(yurt_app_daemon())
    made: dict[str, Any] = copy.deepcopy(fleet.workload("agent", "hangzhou"))
    made["metadata"]["ownerReferences"] = [owner(kind="YurtAppDaemon", name="agent")]
    made["spec"]["template"]["spec"]["tolerations"] = [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]
    fleet.server.put(made)
    fleet.override(entry("*", items=TO_2))
    rule = copy.deepcopy(fleet.server[fleet.rule()])
    rule["metadata"] = {"name": "agent", "namespace": "default", "uid": "rule-agent"}
    rule["subject"] = {**rule["subject"], "kind": "YurtAppDaemon", "name": "agent"}
    fleet.server.put(rule)
    return path_of(made)


def count_writes(fleet: Fleet) -> dict[str, int]:
    """The number of writes of each workload."""
    return {path: count for path, count in fleet.server.writes.items() if is_workload(path)}


@pytest.mark.parametrize("plural", ["yurtappdaemons", "nodepools"])
async def test_only_subjects_of_an_unreadable_kind_wait(plural: str) -> None:
    fleet = Fleet()
    unreadable = Unreadable(fleet, plural)
    daemon = with_daemon(fleet)
    async with fleet.leader():
        await fleet.wait_for(lambda: fleet.condition() == ("True", "AllRendered", "1 of 1 workloads"))
        await fleet.wait(10 * MINUTE)
        assert count_writes(fleet) == {fleet.path(): 1}
        assert fleet.status("agent") == {}
        unreadable.plurals.clear()
        await fleet.wait_for(lambda: fleet.condition(subject="agent")[1] == "AllRendered")
        await fleet.wait(10 * MINUTE)
        assert count_writes(fleet) == {fleet.path(): 1, daemon: 1}
        assert fleet.image("agent") == "nginx:2.0"


async def test_without_the_overriders_nothing_is_reverted() -> None:
    former = Fleet()
    daemon = with_daemon(former)
    async with former.leader():
        await former.wait_for(lambda: former.condition()[1] == former.condition(subject="agent")[1] == "AllRendered")
    fleet = Fleet(former.server)
    unreadable = Unreadable(fleet, "yurtappoverriders")
    before = count_writes(fleet)
    async with fleet.leader() as controller:
        await fleet.wait(10 * MINUTE)
        assert count_writes(fleet) == before
        assert controller.reconciled == 0
        assert (fleet.image(), fleet.server[daemon]["spec"]) == ("nginx:2.0", former.server[daemon]["spec"])
        unreadable.plurals.clear()
        await fleet.wait_for(lambda: controller.reconciled >= 2)
        await fleet.wait(10 * MINUTE)
        assert count_writes(fleet) == before


async def test_a_drift_is_found_when_an_unreadable_kind_is_read() -> None:
    former = Fleet()
    daemon = with_daemon(former)
    async with former.leader():
        await former.wait_for(lambda: former.condition(subject="agent")[1] == "AllRendered")
    former.server.edit(
        daemon, {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "drifted"}]}}}}, review=False
    )
    fleet = Fleet(former.server)
    unreadable = Unreadable(fleet, "yurtappdaemons")
    async with fleet.leader():
        await fleet.wait(MINUTE)
        assert fleet.image("agent") == "drifted"
        unreadable.plurals.clear()
        await fleet.wait_for(lambda: fleet.image("agent") == "nginx:2.0", seconds=30)


async def test_labels_of_a_node_pool_are_rendered_within_seconds() -> None:
    fleet = Fleet()
    fleet.subject()
    fleet.server.put(node_pool("hangzhou", {"region": "west"}))
    async with fleet.leader():
        fleet.override(entry(selector={"matchLabels": {"region": "east"}}, items=TO_2))
        await fleet.wait(MINUTE)
        assert count_writes(fleet) == {}
        fleet.server.put(node_pool("hangzhou", {"region": "east"}))
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0", seconds=10)
        fleet.server.put({**node_pool("hangzhou", {"region": "east"}), "status": {"readyNodeNum": 1}})
        await fleet.wait(MINUTE)
        assert count_writes(fleet) == {fleet.path(): 1}
