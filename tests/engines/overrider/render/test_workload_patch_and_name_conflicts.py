"""Tests of rendering by a plan."""

from typing import Any

import pytest

from fleethook.engines.overrider.render.template_delta import delta_of
from fleethook.engines.overrider.render.undo_and_annotations import UNDO_ANNOTATION
from fleethook.engines.overrider.render.workload_patch_and_name_conflicts import foreign_container
from fleethook.model.merge_keys import WORKLOAD
from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    images,
    overrider,
    patch,
    pod_spec,
    rendered,
    review,
    workload,
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
