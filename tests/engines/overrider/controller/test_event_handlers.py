"""Tests of the changes that queue a subject."""

from typing import Any

from fleethook.engines.overrider.controller.event_handlers import EventHandlers
from fleethook.engines.overrider.controller.workload_client import WriteLimits
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.openyurt.owner_waits import OwnerWaits
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.work.queue import WorkQueue
from fleethook.work.slice_runner import Slices
from tests.builders import entry, node_pool, overrider, store_of, yurt_app_daemon, yurt_app_set
from tests.engines.overrider.apiserver import Apiserver
from tests.engines.overrider.running import START
from tests.work.clock import FakeClock

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
            slices=Slices(),
            limits=WriteLimits(),
            absent_seconds=10.0,
            every_cluster=False,
            now=lambda: START,
        )
        self.waits = OwnerWaits(seconds=10.0, interval=600.0, time=self.clock.time)
        inputs = EventHandlers(self.queue, self.store, workloads, self.waits, scheduler=self.clock)
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
    assert not world.waits.patience(SET, pools=0, observed=True).wait
    world.put(yurt_app_set(paused=True))
    assert world.queued() == []
    assert world.waits.patience(SET, pools=0, observed=True).wait
    world.clock.advance(5)
    assert world.queued() == [SET]


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
