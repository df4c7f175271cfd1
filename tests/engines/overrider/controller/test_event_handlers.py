"""Tests of the changes that queue a subject."""

import copy
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.controller.event_handlers import EventHandlers, input_kinds
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.openyurt import NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET
from fleethook.work.queue import WorkQueue
from fleethook.work.turns import Turns
from tests.builders import entry, image, node_pool, overrider, owner, store_of, yurt_app_daemon, yurt_app_set
from tests.engines.overrider.apiserver import Apiserver, is_workload, path_of
from tests.engines.overrider.running import START, Fleet
from tests.work.clock import FakeClock

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


def test_node_pools_are_inputs_of_subjects_that_select_them() -> None:
    beta = {**yurt_app_set(), "apiVersion": "apps.openyurt.io/v1beta1"}
    assert input_kinds(YURT_APP_SET, yurt_app_set()) == {YURT_APP_OVERRIDER, YURT_APP_SET}
    by_name, by_label = overrider(entry("*")), overrider(entry(selector={"matchLabels": {"region": "east"}}))
    assert NODE_POOL not in input_kinds(YURT_APP_SET, yurt_app_set(), [by_name])
    assert NODE_POOL in input_kinds(YURT_APP_SET, yurt_app_set(), [by_name, by_label])
    assert input_kinds(YURT_APP_SET, beta) == {YURT_APP_OVERRIDER, YURT_APP_SET, NODE_POOL}
    assert input_kinds(YURT_APP_SET, None) == {YURT_APP_OVERRIDER, YURT_APP_SET}
    for daemon in (yurt_app_daemon(), None):
        assert input_kinds(YURT_APP_DAEMON, daemon) == {YURT_APP_OVERRIDER, YURT_APP_DAEMON, NODE_POOL}


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


SET = Binding("", YURT_APP_SET, "default", "demo")
DAEMON = Binding("", YURT_APP_DAEMON, "default", "agent")


class World:
    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        agent = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "agent"}
        self.store = store_of(
            overrider(entry("*")), overrider(entry("*"), name="other", subject=agent), yurt_app_set(), yurt_app_daemon()
        )
        self.queue: WorkQueue[Binding] = WorkQueue(scheduler=self.clock)
        workloads = Workloads(
            Apiserver(self.store, PlanCache()),  # type: ignore[arg-type] - the part of a connection that is used
            self.store,
            PlanCache(),
            turns=Turns(),
            per_second=50.0,
            every_cluster=False,
            now=lambda: START,
            scheduler=self.clock,
        )
        inputs = EventHandlers(self.queue, self.store, workloads, scheduler=self.clock)
        self.store.subscribe(inputs.object_changed)

    def put(self, document: dict[str, Any]) -> None:
        self.store.put(document)

    def queued(self) -> list[Binding]:
        found = []
        while (key := self.queue.take(max_retrying=1)) is not None:
            self.queue.finish(key, True)
            found.append(key)
        return found


def test_a_change_of_entries_queues_the_subject_and_a_status_does_not() -> None:
    world = World()
    world.put({**overrider(entry("*")), "status": {"summary": "1/1"}})
    assert world.queued() == []
    world.put(overrider(entry("hangzhou")))
    assert world.queued() == [SET]


def test_a_change_of_a_spec_queues_the_subject_after_some_seconds() -> None:
    world = World()
    nudged = yurt_app_set()
    nudged["metadata"]["annotations"] = {"fleethook.io/nudged-at": "now"}
    world.put(nudged)
    world.clock.advance(60)
    assert world.queued() == []
    world.put(yurt_app_set(paused=True))
    assert world.queued() == []
    world.clock.advance(5)
    assert world.queued() == [SET]


def test_a_status_queues_the_subject_when_its_controller_has_caught_up() -> None:
    world = World()
    for observed, queued in ((1, []), (2, [SET]), (2, [])):
        changed = yurt_app_set()
        changed["metadata"]["generation"] = 2
        world.put({**changed, "status": {"observedGeneration": observed}})
        world.clock.advance(1)
        assert world.queued() == queued


def test_changes_of_many_node_pools_queue_each_daemon_once() -> None:
    world = World()
    for number in range(100):
        world.put(node_pool(f"pool-{number}", taints=[]))
    assert world.queued() == []
    world.clock.advance(5)
    assert world.queued() == [DAEMON]
    for number in range(100):
        world.put({**node_pool(f"pool-{number}", taints=[]), "status": {"readyNodeNum": 1}})
    world.clock.advance(60)
    assert world.queued() == []


def test_a_label_of_a_node_pool_queues_the_subjects_whose_entries_select_by_labels() -> None:
    world = World()
    world.put(overrider(entry(selector={"matchLabels": {"region": "east"}})))
    assert world.queued() == [SET]
    world.put(node_pool("hangzhou", {"region": "east"}))
    world.clock.advance(5)
    assert sorted(world.queued()) == [DAEMON, SET]


def test_another_api_version_queues_the_subject() -> None:
    world = World()
    now = {**yurt_app_set(), "apiVersion": "apps.openyurt.io/v1beta1"}
    world.put(now)
    world.clock.advance(10.0)
    assert world.queued() == [SET]
    world.put({**now, "metadata": {**now["metadata"], "annotations": {"fleethook.io/nudged-at": "now"}}})
    world.clock.advance(10.0)
    assert world.queued() == []
