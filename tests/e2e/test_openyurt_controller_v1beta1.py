"""OpenYurt's controller for v1beta1 and kube-controller-manager by themselves, without fleethook."""

from collections.abc import Iterator

import pytest

from tests.builders import container, patch, tweak
from tests.e2e.cluster import ControlPlane
from tests.e2e.openyurt import POOL_LABEL, V1_5
from tests.e2e.openyurt_v1beta1 import SUBJECT_LABEL, V1Beta1
from tests.e2e.scenario import BEIJING, HANGZHOU, POOLS, Scenario, apply_node_pools, scenario
from tests.waiting import wait_for

FORM = V1Beta1()


@pytest.fixture
def demo(openyurt_plane: ControlPlane) -> Iterator[Scenario]:
    api = openyurt_plane.api()
    apply_node_pools(api, FORM, **{name: {} for name in POOLS})
    with scenario(api, release=V1_5, form=FORM) as made:
        made.create()
        settle(made)
        yield made


def settle(one: Scenario) -> None:
    wait_for(
        lambda: one.controller.has_settled("demo") and one.rollouts.has_followed(),
        what="OpenYurt's controller has nothing to do",
    )


def test_the_workloads_equal_those_of_the_form(demo: Scenario) -> None:
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})
    assert demo.counts() == dict.fromkeys(POOLS, (1, 1))
    demo.edit_container(args=["--second"])
    settle(demo)
    assert demo.counts() == dict.fromkeys(POOLS, (2, 2))


def test_an_edited_tweak_of_one_pool_rolls_out_every_pool(demo: Scenario) -> None:
    demo.tweak(tweak(BEIJING, containerImages=[{"name": "nginx", "targetImage": "nginx:2.0"}]))
    settle(demo)
    assert demo.counts() == dict.fromkeys(POOLS, (2, 2))
    images = {pool: one["spec"]["template"]["spec"]["containers"][0]["image"] for pool, one in demo.workloads().items()}
    assert images == {**dict.fromkeys(POOLS, "nginx:1.0"), BEIJING: "nginx:2.0"}


def test_drift_is_left_alone_until_the_next_revision(demo: Scenario) -> None:
    writes = len(demo.controller.writes)
    spec = {"replicas": 3, "template": {"spec": {"containers": [container(image="edited:9")]}}}
    demo.api.merge(demo.workload_path(BEIJING), {"spec": spec})
    settle(demo)
    assert demo.workloads()[BEIJING]["spec"]["replicas"] == 3
    assert len(demo.controller.writes) == writes
    demo.edit_container(image="nginx:1.1")
    settle(demo)
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})


def test_a_workload_that_lost_its_label_is_released_and_made_anew(demo: Scenario) -> None:
    path = demo.workload_path(BEIJING)
    demo.api.merge(path, {"metadata": {"labels": {SUBJECT_LABEL: None}}})
    wait_for(lambda: not demo.api[path]["metadata"].get("ownerReferences"), what="the workload is released")
    settle(demo)
    assert demo.workload_path(BEIJING) != path
    assert [write.verb for write in demo.controller.writes[len(POOLS) :]] == ["release", "create"]


def test_pools_come_and_go_with_the_labels_of_node_pools(openyurt_plane: ControlPlane) -> None:
    api = openyurt_plane.api()
    with scenario(api, release=V1_5, form=FORM) as demo:
        name = f"{demo.namespace}-pool"
        apply_node_pools(api, FORM, **{name: {}})
        demo.create(given={"selector": {"matchLabels": {"in": demo.namespace}}})
        settle(demo)
        assert not demo.workloads()
        api.merge(f"{FORM.node_pools_path}/{name}", {"metadata": {"labels": {"in": demo.namespace}}})
        wait_for(lambda: set(demo.workloads()) == {name}, what="the pool has a workload")
        assert demo.workloads()[name]["metadata"]["labels"][POOL_LABEL] == name
        api.merge(f"{FORM.node_pools_path}/{name}", {"metadata": {"labels": {"in": None}}})
        wait_for(lambda: not demo.workloads(), what="the pool is gone")


def test_a_refused_tweak_is_tried_again_every_second(demo: Scenario) -> None:
    demo.tweak(tweak(HANGZHOU, patches=[patch("remove", "/spec/template/spec/volumes/9")]))

    def errors() -> int:
        return sum(write.code == 0 and write.pool == HANGZHOU for write in demo.controller.writes)

    wait_for(lambda: errors() >= 2, what="OpenYurt's controller has tried twice")
    demo.tweak()
    settle(demo)
