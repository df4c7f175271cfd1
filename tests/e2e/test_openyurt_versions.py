"""The versions of the API that releases of OpenYurt serve, and overriders that name either version of their subject.

OpenYurt's definitions are those of 1.7, with the versions that each release serves and stores. Its conversion webhook
does not run: the view of v1alpha1 has only the members of both versions, which is less than OpenYurt shows.
"""

from collections.abc import Iterator

import pytest

from tests.builders import entry, image, tweak
from tests.e2e.cluster import ControlPlane
from tests.e2e.installation import Installation, run_installation
from tests.e2e.openyurt import GROUP, V1_5
from tests.e2e.openyurt_crds import install_openyurt_crds
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import BEIJING, POOLS, Scenario, apply_node_pools, scenario, with_image

SETS = ("v1alpha1", "v1beta1")
RELEASES = {
    "1.5 and 1.6": ("v1alpha1", "v1beta1"),
    "1.7": ("v1alpha1", "v1beta1", "v1beta2"),
}
"""The versions of NodePools; the last one is stored."""


@pytest.fixture(scope="module", params=RELEASES)
def form(request: pytest.FixtureRequest, openyurt_plane: ControlPlane) -> Iterator[V1Beta1]:
    """The form of a release whose definitions are installed during the test."""
    api, made = openyurt_plane.api(), V1Beta1()
    versions = RELEASES[request.param]
    made.node_pools_path = f"/apis/{GROUP}/{versions[-1]}/nodepools"
    install_openyurt_crds(api, yurtappsets=SETS, nodepools=versions)
    apply_node_pools(api, made, **{name: {} for name in POOLS})
    yield made
    install_openyurt_crds(api)


@pytest.fixture(scope="module")
def instance(
    form: V1Beta1, openyurt_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with run_installation(openyurt_plane, tmp_path_factory.mktemp("versions")) as made:
        yield made


@pytest.fixture
def demo(openyurt_plane: ControlPlane, form: V1Beta1, instance: Installation) -> Iterator[Scenario]:
    with scenario(openyurt_plane.api(), release=V1_5, form=form) as made:
        made.start_sentinel()
        yield made


def await_images(demo: Scenario, claim: str) -> None:
    specs = {pool: demo.expected(pool, *([with_image(claim)] if pool == BEIJING else [])) for pool in POOLS}
    demo.wait_for_specs(specs)
    demo.settle("demo")


@pytest.mark.parametrize("version", SETS)
def test_an_overrider_may_name_either_version_of_its_subject(demo: Scenario, version: str) -> None:
    tweaks = [tweak(BEIJING, containerImages=[{"name": "nginx", "targetImage": "nginx:1.5"}])]
    demo.override(entry(BEIJING, items=[image("nginx", "nginx:2.0")]), version=f"{GROUP}/{version}")
    demo.create(given={"tweaks": tweaks})
    await_images(demo, "nginx:2.0")
    demo.override(entry(BEIJING, items=[image("nginx", "nginx:3.0")]), version=f"{GROUP}/{version}")
    await_images(demo, "nginx:3.0")
    assert [demo.counts()[pool] for pool in POOLS] == [(2, 2), (1, 1), (1, 1)]
    demo.edit_container(args=["--second"])
    await_images(demo, "nginx:3.0")
    assert [demo.counts()[pool] for pool in POOLS] == [(3, 3), (2, 2), (2, 2)]


def test_the_other_version_may_be_named_later(demo: Scenario) -> None:
    """Both versions name the same subject, so the edit changes no subject and renders nothing again."""
    override = entry(BEIJING, items=[image("nginx", "nginx:2.0")])
    demo.override(override, version=f"{GROUP}/v1alpha1")
    demo.create()
    await_images(demo, "nginx:2.0")
    demo.override(override, version=f"{GROUP}/v1beta1")
    await_images(demo, "nginx:2.0")
    assert demo.counts() == dict.fromkeys(POOLS, (1, 1))
