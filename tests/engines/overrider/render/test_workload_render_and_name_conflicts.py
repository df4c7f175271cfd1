"""Tests of rendering by a plan."""

from typing import Any

import pytest

from fleethook.engines.overrider.commands.workload_restoration import Restorer
from fleethook.engines.overrider.render.template_delta import delta_of
from fleethook.engines.overrider.render.undo_and_annotations import UNDO_ANNOTATION
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import foreign_container
from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import apply
from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    image,
    images,
    is_unchanged,
    node_pool,
    overrider,
    owner,
    patch,
    pod_spec,
    pod_template,
    rendered,
    review,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([patch("replace", "/spec/replicas", "three")], "/spec/replicas: must be an integer"),
        ([patch("add", "/metadata/labels/n", 1)], "/metadata/labels/n: must be a string"),
        ([patch("add", "/spec/template/spec/containers/-", container())], 'containers/0 has the same name "nginx"'),
        ([patch("replace", "/spec/selector", {})], "/spec/selector identifies"),
        ([patch("replace", "/metadata/ownerReferences", [])], "/metadata/ownerReferences identifies"),
        ([patch("replace", "/metadata/labels", {})], "/metadata/labels/apps.openyurt.io~1pool-name identifies"),
        ([patch("remove", "/spec/template/metadata/labels")], "/spec/template/metadata/labels/app identifies"),
    ],
)
def test_invalid_or_protected_changes_are_denied(operations: Any, text: str) -> None:
    answer = review(workload(), yurt_app_set(), overrider(entry("*", patches=operations)))
    assert not answer.allowed
    assert text in answer.message


def test_replicas_that_an_autoscaler_set_survive_an_update_and_the_pools_are_set_on_create() -> None:
    scaled = workload(replicas=7)
    assert rendered(scaled, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=scaled)["spec"]["replicas"] == 7
    assert rendered(scaled, yurt_app_set(), NEW_IMAGE)["spec"]["replicas"] == 2


def test_immutable_members_are_left_alone_on_update() -> None:
    living = workload("StatefulSet", serviceName="old")
    subject = yurt_app_set(kind="StatefulSet", serviceName="new")
    assert rendered(living, subject, NEW_IMAGE, operation="UPDATE", old=living)["spec"]["serviceName"] == "old"
    assert rendered(living, subject, NEW_IMAGE)["spec"]["serviceName"] == "new"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"spec":[]}', '{"spec":{"template":null}}', '{"metadata":{"name":null}}']
)
def test_a_tampered_undo_annotation_cannot_remove_identity(text: str) -> None:
    first = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    first["metadata"]["annotations"][UNDO_ANNOTATION] = text
    result = rendered(first, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=first)
    assert images(result) == {"nginx": "nginx:2.0"}
    assert result["metadata"]["name"] == first["metadata"]["name"]


def test_defaults_that_the_apiserver_added_do_not_make_a_second_render_differ() -> None:
    rule = overrider(
        entry("*", patches=[patch("add", "/spec/template/spec/volumes", [{"name": "mine", "emptyDir": {}}])])
    )
    first = rendered(workload(), yurt_app_set(), rule)
    pod_spec(first)["volumes"][0]["emptyDir"]["sizeLimit"] = "1Gi"
    pod_spec(first)["restartPolicy"] = "Always"
    assert rendered(first, yurt_app_set(), rule, operation="UPDATE", old=first) == first


def with_containers(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"template": {"spec": {"containers": [*containers]}}}}


def test_an_added_container_that_another_webhook_added_first_is_foreign() -> None:
    after = with_containers(container("nginx", "nginx:2"), container("side"))
    delta = delta_of(with_containers(container("nginx"), container("log")), after, WORKLOAD)
    taken = with_containers(container("nginx"), container("side", "other:1"))
    assert foreign_container(delta, taken) == "side"
    assert foreign_container(delta, with_containers(container("nginx"))) is None
    assert foreign_container(delta, with_containers(container("nginx"), container("side"))) is None


def test_a_workload_kind_the_subject_has_no_template_for_is_a_warning() -> None:
    answer = review(workload("StatefulSet"), yurt_app_set(), NEW_IMAGE)
    assert is_unchanged(answer)
    assert "has no spec.workloadTemplate.statefulSetTemplate" in answer.warnings[0]


APP = "/spec/template/spec/containers/[name=nginx]"
FORMER = {
    "containers": [
        container(args=["--one"], env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        container("side", "busybox:1"),
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
CHANGED = {"containers": [container(image="nginx:1.9", args=["--two"]), container("new", "new:1")]}
ON_FORMER = {
    "image and replicas": entry("*", items=[image("nginx", "nginx:2.0"), {"replicas": 5}]),
    "replicas as they are": entry("*", items=[{"replicas": 2}]),
    "a variable": entry("*", patches=[patch("add", f"{APP}/env/[name=A]", {"value": "3"})]),
    "an added container": entry("*", patches=[patch("add", "/spec/template/spec/containers/-", container("x", "x:1"))]),
    "removed variables": entry("*", patches=[patch("remove", f"{APP}/env")]),
    "other arguments": entry("*", patches=[patch("replace", f"{APP}/args", ["--mine"])]),
    "another volume source": entry(
        "*", patches=[patch("replace", "/spec/template/spec/volumes/[name=data]", {"name": "data", "hostPath": {"path": "/d"}})]
    ),
    "members of the spec": entry("*", patches=[patch("add", "/spec/minReadySeconds", 7), patch("add", "/spec/paused", True)]),
}  # fmt: skip


@pytest.mark.parametrize("rule", ON_FORMER.values(), ids=ON_FORMER)
@pytest.mark.parametrize("first", ["v1beta1", "v1beta2"], ids=["rendered by 1.6", "rendered by 1.7"])
def test_a_workload_that_no_controller_manages_keeps_its_template(rule: Any, first: str) -> None:
    """OpenYurt 1.7, which serves NodePools as v1beta2, has no controller for YurtAppDaemons."""

    def pool_of(version: str) -> dict[str, Any]:
        return {**node_pool("hangzhou", {"region": "east"}), "apiVersion": f"apps.openyurt.io/{version}"}

    def write(living: Any, *objects: Any) -> dict[str, Any]:
        return rendered(living, *objects, operation="UPDATE", old=living)

    former, changed = (
        yurt_app_daemon(template=pod_template(**one), replicas=replicas)
        for one, replicas in ((FORMER, 2), (CHANGED, 3))
    )
    agent = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "agent"}
    override, pool = overrider(rule, subject=agent), pool_of("v1beta2")
    made = workload(owners=[owner("YurtAppDaemon", "agent")])
    made["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] = "hangzhou"
    pod_spec(made).update(FORMER, nodeSelector={"apps.openyurt.io/nodepool": "hangzhou"})
    managed = write(made, former, override, pool_of("v1beta1"))
    living = write(managed if first == "v1beta1" else made, former, override, pool)
    assert living["spec"] == managed["spec"]
    kept = write(living, changed, override, pool)
    assert kept["spec"] == living["spec"]
    assert write(kept, changed, override, pool) == kept
    assert write(kept, changed, pool) == made
    assert apply(kept, Restorer([changed, pool]).plan(kept).operations) == made
