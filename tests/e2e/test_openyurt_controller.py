"""OpenYurt's controller of these tests and kube-controller-manager by themselves, without fleethook."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.builders import container
from tests.e2e.cluster import ControlPlane
from tests.e2e.openyurt import V1_4, V1_5, Release
from tests.e2e.scenario import BEIJING, POOLS, Scenario, scenario
from tests.waiting import wait_for

Make = Callable[[Release], Scenario]


@pytest.fixture
def make(managed_plane: ControlPlane) -> Iterator[Make]:
    with contextlib.ExitStack() as stack:

        def started(release: Release) -> Scenario:
            made = stack.enter_context(scenario(managed_plane.api(), release=release))
            made.create()
            settle(made)
            return made

        yield started


def settle(one: Scenario) -> None:
    wait_for(
        lambda: one.controller.has_settled("demo") and one.rollouts.has_followed(),
        what="OpenYurt's controller has nothing to do",
    )


def test_each_pod_template_makes_one_replica_set_in_each_pool(make: Make) -> None:
    demo = make(V1_4)
    assert demo.counts() == dict.fromkeys(POOLS, (1, 1))
    demo.edit_container(args=["--verbose"])
    settle(demo)
    demo.edit_container()
    settle(demo)
    # The third template equals the first one, including the revision label.
    assert demo.counts() == dict.fromkeys(POOLS, (3, 2))
    arguments = [one["spec"]["containers"][0].get("args") for one in demo.rollouts.templates("demo", BEIJING)]
    assert arguments == [None, ["--verbose"], None]


def test_labels_and_drift_are_left_alone(make: Make) -> None:
    demo = make(V1_5)
    writes = len(demo.controller.writes)
    spec = {"replicas": 3, "template": {"spec": {"containers": [container(image="edited:9")]}}}
    for pool in POOLS:
        demo.api.merge(demo.workload_path(pool), {"metadata": {"labels": {"team": "a"}}, "spec": spec})
    settle(demo)
    assert [one["spec"]["replicas"] for one in demo.workloads().values()] == [3, 3, 3]
    assert len(demo.controller.writes) == writes


def test_replicas_are_compared_in_1_4(make: Make) -> None:
    demo = make(V1_4)
    demo.api.merge(demo.workload_path(BEIJING), {"spec": {"replicas": 3}})
    # The controller notes a write after the answer of the apiserver.
    update = ("update", "demo", BEIJING)
    wait_for(lambda: demo.controller.writes[-1][:3] == update, what="OpenYurt's controller scales back")
    assert demo.workloads()[BEIJING]["spec"]["replicas"] == 1


def test_a_drifted_workload_is_restored_at_the_next_write(make: Make) -> None:
    demo = make(V1_5)
    spec = {"template": {"spec": {"containers": [container(args=["--mine"])]}}}
    demo.api.merge(demo.workload_path(BEIJING), {"spec": spec})
    demo.edit_container(image="nginx:2.0")
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})
