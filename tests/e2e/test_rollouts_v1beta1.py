"""ReplicaSets per change for features of YurtAppSets v1beta1 only: tweaks, node pool selectors, replaced specs.

OpenYurt's definitions are those of 1.7, and its controller is the fake that tests/conformance/openyurt is held against.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.builders import entry, image, tweak
from tests.e2e.cluster import ControlPlane
from tests.e2e.installation import Installation, run_installation
from tests.e2e.openyurt import V1_5
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import (
    BEIJING,
    HANGZHOU,
    POOLS,
    SHANGHAI,
    Change,
    JSONObject,
    Scenario,
    apply_node_pools,
    scenario,
    with_image,
)
from tests.waiting import wait_for

FORM = V1Beta1()
TO_2, TO_3 = (entry(BEIJING, items=[image("nginx", claim)]) for claim in ("nginx:2.0", "nginx:3.0"))
RESTARTED = "kubectl.kubernetes.io/restartedAt"
FIVE = ("pool-1", "pool-2", "pool-3", "pool-4", "pool-5")
Make = Callable[[], Scenario]


@pytest.fixture(scope="module")
def instance(openyurt_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    apply_node_pools(openyurt_plane.api(), FORM, **{name: {} for name in (*POOLS, *FIVE)})
    with run_installation(openyurt_plane, tmp_path_factory.mktemp("tweaks")) as made:
        yield made


@pytest.fixture
def make(openyurt_plane: ControlPlane, instance: Installation) -> Iterator[Make]:
    """Start a scenario with a sentinel."""
    with contextlib.ExitStack() as stack:

        def started() -> Scenario:
            made = stack.enter_context(scenario(openyurt_plane.api(), release=V1_5, form=FORM))
            made.start_sentinel()
            return made

        yield started


def image_tweak(claim: str, *pools: str) -> JSONObject:
    return tweak(*pools, containerImages=[{"name": "nginx", "targetImage": claim}])


@pytest.fixture
def demo(make: Make) -> Scenario:
    """A subject of three pools, two of them tweaked and one of these overridden."""
    made = make()
    made.override(TO_2)
    made.create(given={"tweaks": [image_tweak("nginx:1.5", BEIJING, HANGZHOU)]})
    await_specs(made, "nginx:2.0")
    return made


def await_specs(demo: Scenario, claim: str | None, *pools: str, kept: JSONObject | None = None) -> None:
    """Wait until each workload equals OpenYurt's, with the image in the overridden pool, and all controllers are idle.

    Args:
        kept: Annotations of the overridden pool's pods that another client has set.
    """

    def change(workload: JSONObject) -> None:
        if claim:
            with_image(claim)(workload)
        if kept:
            workload["spec"]["template"]["metadata"].setdefault("annotations", {}).update(kept)

    specs = {pool: demo.expected(pool) for pool in pools or POOLS}
    specs[BEIJING] = demo.expected(BEIJING, change)
    demo.wait_for_specs(specs)
    demo.settle(*(["demo"] if claim else []))


def images(demo: Scenario) -> dict[str, str]:
    return {pool: one["spec"]["template"]["spec"]["containers"][0]["image"] for pool, one in demo.workloads().items()}


def expect(demo: Scenario, *counts: int) -> None:
    """Assert the number of pod templates and of ReplicaSets of each pool."""
    assert demo.counts() == {pool: (count, count) for pool, count in zip(POOLS, counts, strict=True)}


def test_an_edited_overrider_rolls_out_its_pool_and_an_edited_tweak_every_pool(make: Make) -> None:
    """The measurement that docs/openyurt-versions.md quotes: ReplicaSets of five pools before and after either edit."""
    demo = make()
    overriding = [entry("pool-1", items=[image("nginx", f"nginx:2.{n}")]) for n in range(2)]
    demo.override(overriding[0])
    demo.create(*FIVE, given={"tweaks": [image_tweak("nginx:1.1", "pool-2")]})
    tables = []
    for edit in (
        lambda: None,
        lambda: demo.override(overriding[1]),
        lambda: demo.tweak(image_tweak("nginx:1.2", "pool-2")),
    ):
        edit()
        changes = {"pool-1": [with_image("nginx:2.1" if tables else "nginx:2.0")]}
        demo.wait_for_specs({pool: demo.expected(pool, *changes.get(pool, [])) for pool in FIVE})
        demo.settle("demo")
        tables.append([demo.rollouts.replica_sets("demo")[pool] for pool in FIVE])
        assert demo.counts() == {pool: (count, count) for pool, count in zip(FIVE, tables[-1], strict=True)}
    assert tables == [[1, 1, 1, 1, 1], [2, 1, 1, 1, 1], [3, 2, 2, 2, 2]]


def test_a_deleted_overrider_gives_the_tweak_back(demo: Scenario) -> None:
    demo.tweak(image_tweak("nginx:1.6", BEIJING, HANGZHOU))
    await_specs(demo, "nginx:2.0")
    demo.stop_overriding()
    await_specs(demo, None)
    assert images(demo) == {BEIJING: "nginx:1.6", HANGZHOU: "nginx:1.6", SHANGHAI: "nginx:1.0"}
    expect(demo, 3, 2, 2)


def test_pools_that_come_and_go_with_labels_roll_out_nothing_else(openyurt_plane: ControlPlane, make: Make) -> None:
    demo = make()
    came, there = f"{demo.namespace}-came", f"{demo.namespace}-there"
    apply_node_pools(openyurt_plane.api(), FORM, **{came: {}, there: {"in": demo.namespace}})
    demo.override(entry("*", items=[image("nginx", "nginx:2.0")]))
    demo.create(given={"selector": {"matchLabels": {"in": demo.namespace}}})
    demo.wait_for_specs({there: demo.expected(there, with_image("nginx:2.0"))})
    for label, pools in ((demo.namespace, (came, there)), (None, (there,)), (demo.namespace, (came, there))):
        demo.api.merge(f"{FORM.node_pools_path}/{came}", {"metadata": {"labels": {"in": label}}})
        demo.wait_for_specs({pool: demo.expected(pool, with_image("nginx:2.0")) for pool in pools})
        summary = f"{len(pools)}/{len(pools)}"
        wait_for(lambda summary=summary: demo.status()["summary"] == summary, what=f"the summary is {summary}")
        demo.settle("demo")
    # The pool's second workload is a new one. Each of them had one template, the overridden one.
    assert demo.counts()[there] == (1, 1)
    assert demo.rollouts.replica_sets("demo")[came] == 1
    templates = demo.rollouts.templates("demo", came)
    assert {one["spec"]["containers"][0]["image"] for one in templates} == {"nginx:2.0"}


def test_a_restart_stays_until_openyurt_writes_the_spec_again(demo: Scenario) -> None:
    time = {RESTARTED: "2026-01-01T00:00:00Z"}
    demo.api.merge(demo.workload_path(BEIJING), {"spec": {"template": {"metadata": {"annotations": time}}}})
    await_specs(demo, "nginx:2.0", kept=time)
    demo.override(TO_3)
    await_specs(demo, "nginx:3.0", kept=time)
    expect(demo, 3, 1, 1)
    demo.edit_container(args=["--second"])
    # Without fleethook it disappears then, too: the template's spec replaces that of the workload.
    await_specs(demo, "nginx:3.0")
    expect(demo, 4, 2, 2)


def test_a_scale_by_hand_stays_until_openyurt_writes_the_spec_again(demo: Scenario) -> None:
    for pool in (BEIJING, HANGZHOU):
        demo.api.merge(f"{demo.workload_path(pool)}/scale", {"spec": {"replicas": 4}})
    demo.override(TO_3)
    wait_for(lambda: images(demo)[BEIJING] == "nginx:3.0")
    demo.settle("demo")
    assert [demo.workloads()[pool]["spec"]["replicas"] for pool in POOLS] == [4, 4, 1]
    demo.edit_container(args=["--second"])
    await_specs(demo, "nginx:3.0")


def test_stateful_sets_follow_template_tweak_and_overrider(make: Make) -> None:
    demo = make()
    demo.override(TO_2)
    demo.create(given={"kind": "StatefulSet", "tweaks": [image_tweak("nginx:1.5", BEIJING, HANGZHOU)]})
    await_specs(demo, "nginx:2.0")
    demo.override(TO_3)
    await_specs(demo, "nginx:3.0")
    demo.edit_container(args=["--second"])
    await_specs(demo, "nginx:3.0")
    demo.tweak(tweak(BEIJING, replicas=2), image_tweak("nginx:1.6", HANGZHOU))
    await_specs(demo, "nginx:3.0")
    assert [demo.workloads()[pool]["spec"]["replicas"] for pool in POOLS] == [2, 1, 1]
    demo.stop_overriding()
    await_specs(demo, None)
    # Created, template, tweak; where the overrider applies, also its edit and its end.
    generations = [demo.workloads()[pool]["metadata"]["generation"] for pool in POOLS]
    assert generations == [5, 3, 3]


def test_replicas_that_an_entry_leaves_survive_revisions_and_the_overrider(make: Make) -> None:
    """An autoscaler writes to the scale subresource; OpenYurt's controller writes the template with each revision."""
    demo = make()
    demo.override(entry("*", items=[{"initialReplicas": 3}, image("nginx", "nginx:2.0")]))
    demo.create()
    demo.wait_for_specs({pool: demo.expected(pool, with_image("nginx:2.0"), with_replicas(3)) for pool in POOLS})
    demo.api.merge(f"{demo.workload_path(BEIJING)}/scale", {"spec": {"replicas": 7}})

    def await_replicas(claim: str) -> None:
        numbers = {BEIJING: 7, HANGZHOU: 3, SHANGHAI: 3}
        specs = {pool: demo.expected(pool, with_image(claim), with_replicas(numbers[pool])) for pool in POOLS}
        demo.wait_for_specs(specs)
        demo.settle(*(["demo"] if claim != "nginx:1.0" else []))

    demo.edit_container(args=["--second"])
    await_replicas("nginx:2.0")
    demo.tweak(tweak(BEIJING, replicas=2))
    await_replicas("nginx:2.0")
    demo.override(entry("*", items=[{"initialReplicas": 4}, image("nginx", "nginx:3.0")]))
    await_replicas("nginx:3.0")
    demo.override(entry("*", items=[{"replicas": 5}, {"leave": ["replicas"]}, image("nginx", "nginx:3.1")]))
    await_replicas("nginx:3.1")
    demo.stop_overriding()
    await_replicas("nginx:1.0")
    demo.edit_container(args=["--third"])
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})
    assert [demo.workloads()[pool]["spec"]["replicas"] for pool in POOLS] == [2, 1, 1]


def with_replicas(number: int) -> Change:
    def change(workload: JSONObject) -> None:
        workload["spec"]["replicas"] = number

    return change
