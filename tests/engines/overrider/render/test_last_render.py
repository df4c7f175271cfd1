"""Tests of the annotations of a render, which no other writer can forge."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.render.last_render import UNDO_ANNOTATION
from fleethook.model.openyurt import RENDERED_ANNOTATION
from tests.builders import container, entry, image, overrider, patch, pool, rendered, review, yurt_app_set
from tests.engines.overrider.render.test_undo import NGINX, with_sidecar
from tests.engines.overrider.worlds import SPEC


@pytest.mark.parametrize(
    "operation",
    [
        patch("add", "/metadata/annotations", {"a": "b"}),
        patch("add", "/metadata/annotations/a", "b"),
        patch("add", "/spec/template/metadata/annotations", {"a": "b"}),
    ],
)
def test_the_undo_survives_patches_of_the_annotations(operation: Any) -> None:
    subject, living = yurt_app_set(template=NGINX), with_sidecar()
    side = patch("add", f"{SPEC}/containers/-", container("side", "side:1"))
    rule = overrider(entry("*", items=PAIR, patches=[operation, side]))
    first = rendered(living, subject, rule, operation="UPDATE", old=living)
    assert {RENDERED_ANNOTATION, UNDO_ANNOTATION} <= first["metadata"]["annotations"].keys()
    labelled = copy.deepcopy(first)
    labelled["metadata"]["labels"]["team"] = "a"
    again = rendered(labelled, subject, rule, operation="UPDATE", old=first)
    assert again == labelled
    back = rendered(again, subject, operation="UPDATE", old=again)
    assert back["spec"] == living["spec"]
    assert back["metadata"]["annotations"] == living["metadata"]["annotations"]


@pytest.mark.parametrize(
    "operation",
    [
        patch("add", "/metadata/annotations/fleethook.io~1undo", "{}"),
        patch("add", "/metadata/annotations", {"fleethook.io/rendered": "x"}),
        patch("add", "/metadata/labels/fleethook.io~1x", "x"),
        patch("add", "/spec/template/metadata/annotations/fleethook.io~1x", "x"),
        patch("add", "/metadata", {"annotations": {"fleethook.io/rendered": "x"}}),
    ],
)
def test_no_patch_writes_annotations_of_fleethook(operation: Any) -> None:
    answer = review(with_sidecar(), yurt_app_set(template=NGINX), overrider(entry("*", patches=[operation])))
    assert not answer.allowed
    assert "belongs to fleethook" in answer.message or "cannot be overridden" in answer.message


def test_neither_template_nor_pool_patch_forges_annotations_of_fleethook() -> None:
    forged = {
        "metadata": {"annotations": {"fleethook.io/undo": '{"spec":{"paused":null}}', "fleethook.io/rendered": "x"}}
    }
    subject = yurt_app_set(template=NGINX, pools=[pool("hangzhou", patch=forged)])
    subject["spec"]["workloadTemplate"]["deploymentTemplate"]["metadata"]["annotations"] = forged["metadata"][
        "annotations"
    ]
    written = with_sidecar()
    written["spec"]["paused"] = True
    written["metadata"]["annotations"] |= forged["metadata"]["annotations"]
    bare = rendered(written, subject)
    assert not {RENDERED_ANNOTATION, UNDO_ANNOTATION} & bare["metadata"]["annotations"].keys()
    result = rendered(written, subject, overrider(entry("*", items=PAIR)))
    assert result["spec"]["paused"] is True
    assert result["metadata"]["annotations"][RENDERED_ANNOTATION] != "x"


PAIR = [image("nginx", "ours:1")]
