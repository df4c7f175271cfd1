"""ReplicaSets per change, with OpenYurt's controllers, a real Deployment controller, late watches and outages.

Each scenario has two counts: the stored pod templates, which do not depend on the machine's speed, and
the ReplicaSets that the Deployment controller created for them. Both must equal the minimum that the changes require.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.builders import entry, image
from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import ACCOUNT, NAMESPACE
from tests.e2e.installation import Installation, run_installation
from tests.e2e.openyurt_planes import VERSIONS, Version
from tests.e2e.proxy import Proxy, run_proxy_in_thread
from tests.e2e.scenario import BEIJING, HANGZHOU, POOLS, Scenario, scenario, with_image
from tests.waiting import wait_for

DELAYS = (0, 200)
TO_2, TO_3 = (entry(BEIJING, HANGZHOU, items=[image("nginx", claim)]) for claim in ("nginx:2.0", "nginx:3.0"))
OVERRIDDEN = (BEIJING, HANGZHOU)


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Version:
    return VERSIONS[request.param]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, version: Version) -> ControlPlane:
    """The control plane, with the NodePools that the version needs."""
    return version.start_plane(request)


@pytest.fixture(scope="module")
def proxy(cluster: ControlPlane) -> Iterator[Proxy]:
    with run_proxy_in_thread(cluster.port) as made:
        yield made


@pytest.fixture(scope="module")
def instance(cluster: ControlPlane, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("rollouts")
    with run_installation(cluster, directory, proxy=proxy) as made:
        yield made


Make = Callable[[], Scenario]


@pytest.fixture
def make(cluster: ControlPlane, instance: Installation, version: Version) -> Iterator[Make]:
    """Start a scenario with a sentinel."""
    with contextlib.ExitStack() as stack:

        def started() -> Scenario:
            made = stack.enter_context(scenario(cluster.api(), release=version.release, form=version.form))
            made.start_sentinel()
            return made

        yield started


@pytest.fixture
def demo(make: Make) -> Scenario:
    """A subject of three pools, created after an overrider of two of them."""
    made = make()
    made.override(TO_2)
    made.create(args=["--first"])
    await_images(made, "nginx:2.0")
    made.settle("demo")
    return made


def await_images(demo: Scenario, claim: str, *overridden: str) -> None:
    """Wait until the overridden pools equal the template with an image, and the others equal the template."""
    chosen = overridden or OVERRIDDEN
    specs = {pool: demo.expected(pool, *([with_image(claim)] if pool in chosen else [])) for pool in POOLS}
    demo.wait_for_specs(specs)


def await_template(demo: Scenario) -> None:
    demo.wait_for_specs({pool: demo.expected(pool) for pool in POOLS})


def expect(demo: Scenario, *, overridden: int, others: int, subject: str = "demo") -> None:
    """Assert the number of pod templates and ReplicaSets of each pool."""
    wanted = {pool: (number, number) for pool, number in zip(POOLS, (overridden, overridden, others), strict=True)}
    assert demo.counts(subject) == wanted


def test_an_overrider_that_is_created_later_rolls_out_its_pools_once(make: Make, instance: Installation) -> None:
    demo = make()
    demo.create(args=["--first"])
    await_template(demo)
    demo.override(TO_2)
    await_images(demo, "nginx:2.0")
    demo.settle("demo")
    expect(demo, overridden=2, others=1)


def test_an_edit_of_the_overrider_rolls_out_its_pools_once(demo: Scenario) -> None:
    demo.override(TO_3)
    await_images(demo, "nginx:3.0")
    demo.settle("demo")
    expect(demo, overridden=2, others=1)


def test_a_deleted_overrider_leaves_the_workloads_of_openyurt(demo: Scenario) -> None:
    demo.stop_overriding()
    await_template(demo)
    demo.settle()
    expect(demo, overridden=2, others=1)
    for workload in demo.workloads().values():
        assert not [key for key in workload["metadata"]["annotations"] if key.startswith("fleethook.io/")]


def count_reads(cluster: ControlPlane) -> int:
    """Return how often fleethook has read subjects, overriders and NodePools by name."""
    requests = cluster.read_audit_log(f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
    return sum(group == "apps.openyurt.io" and verb == "get" for group, _, verb, _ in requests)


def test_writes_of_a_converged_fleet_are_answered_without_a_read(demo: Scenario, cluster: ControlPlane) -> None:
    before = count_reads(cluster)
    uids = {pool: workload["metadata"]["uid"] for pool, workload in demo.workloads().items()}
    for pool in OVERRIDDEN:
        demo.api.delete(demo.workload_path(pool))
    wait_for(lambda: len(demo.workloads()) == len(uids), what="OpenYurt creates the workloads again")
    await_images(demo, "nginx:2.0")
    for pool, workload in demo.workloads().items():
        assert (workload["metadata"]["uid"] != uids[pool]) == (pool in OVERRIDDEN)
        # By hand: the override replaces the image, and OpenYurt's controller the generation of the others.
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:9.9"
        if pool in OVERRIDDEN:
            demo.api.merge(demo.workload_path(pool), {"spec": {"template": workload["spec"]["template"]}})
    await_images(demo, "nginx:2.0")
    assert count_reads(cluster) == before


@pytest.fixture(params=DELAYS, ids=lambda delay: f"{delay}ms")
def late(request: pytest.FixtureRequest, proxy: Proxy, demo: Scenario) -> Iterator[int]:
    """Delay the responses of the apiserver to fleethook, but not its reviews."""
    proxy.delay = request.param / 1000
    yield request.param
    proxy.delay = 0.0


def test_a_template_edit_rolls_out_each_pool_once(demo: Scenario, late: int) -> None:
    demo.edit_container(image="nginx:1.1", args=["--second"])
    await_images(demo, "nginx:2.0")
    demo.settle("demo")
    expect(demo, overridden=2, others=2)


def test_members_that_the_template_drops_disappear_for_good(demo: Scenario, late: int) -> None:
    demo.edit_container()
    await_images(demo, "nginx:2.0")
    demo.settle("demo")
    expect(demo, overridden=2, others=2)
    demo.override(TO_3)
    await_images(demo, "nginx:3.0")
    demo.stop_overriding()
    await_template(demo)
    demo.settle()
    expect(demo, overridden=4, others=2)


def is_refused(demo: Scenario, name: str = "demo") -> bool:
    """Return whether the apiserver refused a write of OpenYurt; a conflict with another writer does not count."""
    return any(write.subject == name and write.code >= 400 and write.code != 409 for write in demo.controller.writes)


def test_a_template_edit_during_an_outage_is_rolled_out_once_afterwards(demo: Scenario, instance: Installation) -> None:
    demo.create(name="plain")
    wait_for(lambda: demo.controller.has_settled("plain"))
    with instance.away():
        demo.edit_container(image="nginx:1.1", args=["--second"])
        wait_for(lambda: is_refused(demo), what="OpenYurt's controller is refused")
    await_images(demo, "nginx:2.0")
    demo.settle("demo")
    expect(demo, overridden=2, others=2)


def test_edits_and_deletions_of_an_overrider_during_an_outage(demo: Scenario, instance: Installation) -> None:
    """Meanwhile writes of overriders fail. A deletion succeeds, and the workloads are restored afterwards."""
    with instance.away():
        demo.stop_overriding()
    await_template(demo)
    demo.settle()
    expect(demo, overridden=2, others=1)


def test_a_subject_created_during_an_outage_is_complete_afterwards(make: Make, instance: Installation) -> None:
    demo = make()
    demo.override(TO_2)
    with instance.away():
        demo.create(args=["--first"])
        wait_for(lambda: is_refused(demo), what="OpenYurt's controller is refused")
    await_images(demo, "nginx:2.0")
    demo.settle("demo")
    expect(demo, overridden=1, others=1)
