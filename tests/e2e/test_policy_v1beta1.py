"""A policy beside the webhook, for workloads that OpenYurt's controller finds by a label only."""

import copy
from collections.abc import Iterator

import pytest

from fleethook.cluster.registration.match_conditions import SubjectName
from tests.builders import entry, image, node_pool, overrider, yurt_app_set_v1beta1
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import new_namespace
from tests.e2e.fleet import OPENYURT
from tests.e2e.installation import selection
from tests.e2e.openyurt_v1beta1 import SUBJECT_LABEL, V1Beta1
from tests.e2e.policies import World, in_namespace, workloads_path
from tests.e2e.restartable_server import run_restartable_server
from tests.e2e.scenario import apply_node_pools
from tests.e2e.test_policy_modes import AUTO
from tests.e2e.workloads import images, path_of
from tests.waiting import wait_for

FORM = V1Beta1()
POOLS = ("beijing", "hangzhou")


@pytest.fixture
def api(openyurt_plane: ControlPlane) -> Api:
    return openyurt_plane.api()


@pytest.fixture
def covered(api: Api, openyurt_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A subject whose overrider sets an image by a policy, while the webhook is registered."""
    apply_node_pools(api, FORM, **{name: {} for name in POOLS})
    subject = yurt_app_set_v1beta1("demo", POOLS)
    named = {"apiVersion": FORM.version, "kind": "YurtAppSet", "name": "demo"}
    rule = overrider(entry("*", items=[image("nginx", "nginx:2.0")]), name="demo", subject=named)
    world = in_namespace(new_namespace(api), subject, rule, {name: node_pool(name) for name in POOLS})
    del world.subject["metadata"]["uid"]
    made = api.create(FORM.path(world.namespace), world.subject)
    world.subject["metadata"]["uid"] = made["metadata"]["uid"]
    rules = f"{OPENYURT}/namespaces/{world.namespace}/yurtappoverriders"
    name = SubjectName(world.namespace, "YurtAppSet", "demo")
    with run_restartable_server(openyurt_plane, tmp_path_factory.mktemp("v1beta1"), **AUTO):
        api.create(rules, world.overrider)
        wait_for(
            lambda: name in selection(api).covered,
            what="the webhook is exempt from the workloads of the subject",
        )
        yield world
        api.delete(f"{rules}/demo")
        wait_for(
            lambda: name not in selection(api).covered,
            what="the webhook is exempt from nothing",
        )


def test_no_update_without_the_label_of_openyurt_escapes_the_override(api: Api, covered: World) -> None:
    """The policy acts on the update that removes the label, and the webhook on those after it."""
    bare = covered.bare("beijing")
    made = api.create(workloads_path(bare), bare)
    assert images(made)["nginx"] == "nginx:2.0"
    for tag in ("nginx:drifted", "nginx:again"):
        written = copy.deepcopy(made)
        written["metadata"]["labels"].pop(SUBJECT_LABEL, None)
        written["spec"]["template"]["spec"]["containers"][0]["image"] = tag
        made = api.replace(path_of(made), written)
        assert (images(made)["nginx"], SUBJECT_LABEL in made["metadata"]["labels"]) == ("nginx:2.0", False), tag
    # OpenYurt's controller releases such a workload.
    del made["metadata"]["ownerReferences"]
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:released"
    assert images(api.replace(path_of(made), made))["nginx"] == "nginx:released"
