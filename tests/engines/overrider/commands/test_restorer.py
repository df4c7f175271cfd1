"""Restoring workloads without a server; tests/e2e/test_uninstall.py has a real apiserver."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.overrider.commands.workload_restoration import Restorer, has_traces
from fleethook.patch import apply
from tests.builders import container, entry, image, overrider, owner, patch, rendered, workload, yurt_app_set

SUBJECT = yurt_app_set()
RULE = overrider(
    entry(
        "*",
        items=[image("nginx", "nginx:2.0"), {"replicas": 7}],
        patches=[patch("add", "/spec/template/spec/containers/-", {"name": "side", "image": "side:1"})],
    )
)
TOUCHED = "2026-01-01T00:00:00Z overrider@7 subject@8"


def render() -> dict[str, Any]:
    return rendered(workload(), SUBJECT, RULE)


def annotate(document: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = document["metadata"]
    named = {name.replace("_", "/"): text for name, text in annotations.items()}
    return {**document, "metadata": {**metadata, "annotations": {**metadata["annotations"], **named}}}


def test_a_rendered_workload_gets_back_its_template_and_keeps_members_of_others() -> None:
    made = annotate(render(), LastOverrideTime=TOUCHED)
    made["spec"]["template"]["spec"]["containers"].append(container("foreign", "mesh:1"))
    plan = Restorer([SUBJECT]).plan(made)
    restored = apply(made, plan.operations)
    expected = workload()
    expected["spec"]["template"]["spec"]["containers"].append(container("foreign", "mesh:1"))
    assert (restored, plan.problem, plan.rendered) == (expected, "", True)
    assert Restorer([SUBJECT]).plan(restored).operations == []


def test_only_our_own_trigger_is_removed_from_a_workload_that_is_not_rendered() -> None:
    restorer = Restorer([SUBJECT])
    ours, of_openyurt = (annotate(workload(), LastOverrideTime=text) for text in (TOUCHED, "2026-01-01T00:00:00Z"))
    assert apply(ours, restorer.plan(ours).operations) == workload()
    assert restorer.plan(of_openyurt).operations == []
    assert [has_traces(msgspec.Raw(msgspec.json.encode(one))) for one in (ours, of_openyurt, render())] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ownerReferences": []}, "it has no owner"),
        ({"ownerReferences": [owner(name="gone")]}, "its owner YurtAppSet default/gone is not known"),
        ({"ownerReferences": [owner(uid="other")]}, "its owner has uid other, but"),
        ({"labels": {"apps.openyurt.io/pool-name": "away"}}, "has no pool 'away'"),
        ({"labels": {}}, "has no label apps.openyurt.io/pool-name"),
        ({"annotations": {"fleethook.io/undo": "[]"}}, "its annotation fleethook.io/undo is damaged"),
        ({"annotations": {"fleethook.io/undo": "{"}}, "its annotation fleethook.io/undo is damaged"),
    ],
)
def test_a_workload_that_cannot_be_restored_stays_with_a_reason(change: dict[str, Any], problem: str) -> None:
    made = render()
    plan = Restorer([SUBJECT]).plan({**made, "metadata": {**made["metadata"], **change}})
    assert problem in plan.problem
    assert plan.operations == ()
