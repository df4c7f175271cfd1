"""Members that other writers add to a workload survive an overrider and its deletion."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION, UNDO_ANNOTATION
from fleethook.engines.overrider.rollout.pool_previews_and_changes import cells, preview
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply, identical
from tests.builders import (
    compile_plan,
    container,
    entry,
    image,
    overrider,
    patch,
    pod_spec,
    pod_template,
    pool,
    rendered,
    request,
    review,
    store_of,
    validate_overrider,
    workload,
    yurt_app_set,
)
from tests.engines.overrider.worlds import (
    EXAMPLES,
    OVERRIDERS,
    SPEC,
    SUBJECTS,
    Foreign,
    can_exist,
    foreign_parts,
    stored_by_owner,
)

PROPERTY = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def plan_of(subject: Any, rule: Any) -> Plan:
    try:
        plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)
    except (RenderError, SubjectError):
        assume(condition=False)
        raise
    assume(can_exist(plan.create.bare))
    return plan


def remove_own_annotations(document: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(document)
    for name in (RENDERED_ANNOTATION, UNDO_ANNOTATION):
        made["metadata"]["annotations"].pop(name, None)
    return made


@PROPERTY
@given(SUBJECTS, OVERRIDERS, st.data())
def test_foreign_members_survive_an_overrider_and_its_deletion(subject: Any, rule: Any, data: Any) -> None:
    plan = plan_of(subject, rule)
    before = stored_by_owner(plan.create.bare)
    Foreign(data.draw).add(before)
    answer = review(before, subject, rule, operation="UPDATE", old=before)
    assert answer.allowed, answer.message
    first = apply(before, answer.patch)
    removed = {leaf.tokens for leaf in plan.sources}
    kept = [part for part in foreign_parts(first) if part[0].count("/") <= 5]
    assert [part for part in foreign_parts(before) if part[0].count("/") <= 5] == kept, removed
    again = rendered(first, subject, rule, operation="UPDATE", old=first)
    assert identical(again, first)
    back = rendered(first, subject, operation="UPDATE", old=first)
    # If the overrider removes a container, the additions of other writers to it are lost, also after it is restored.
    if {part[0] for part in foreign_parts(first)} == {part[0] for part in foreign_parts(before)}:
        back["spec"]["replicas"] = before["spec"]["replicas"]
        assert_same_workload(back, before)


def assert_same_workload(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert equality, apart from the position of restored elements among foreign ones."""
    assert index_by_name(found) == index_by_name(expected)
    assert foreign_parts(found) == foreign_parts(expected)


@PROPERTY
@given(SUBJECTS, OVERRIDERS)
def test_preview_admission_and_validation_agree(subject: Any, rule: Any) -> None:
    store = store_of(subject, rule)
    verdict = validate_overrider(request(rule), store=store_of(subject))
    (cell,) = cells(store, [""])
    try:
        shown = preview(cell, store, PlanCache())
    except (RenderError, SubjectError):
        shown = None
    bare = stored_by_owner(plan_of(subject, None).create.bare)
    answer = review(bare, subject, rule)
    if shown is None:
        assert not answer.allowed or answer.warnings
        return
    assert answer.allowed, answer.message
    created = apply(bare, answer.patch)
    assert identical(created["spec"], {"replicas": 1, **shown.workload["spec"]})
    assert created["metadata"]["annotations"] == shown.workload["metadata"]["annotations"]
    updated = rendered(bare, subject, rule, operation="UPDATE", old=bare)
    for document in (created, updated):
        document["spec"].pop("replicas", None)
    assert identical(updated["spec"], created["spec"])
    assert verdict.allowed or verdict.causes


@PROPERTY
@given(SUBJECTS, OVERRIDERS, OVERRIDERS, st.data())
def test_an_edited_overrider_removes_all_earlier_changes(subject: Any, first: Any, second: Any, data: Any) -> None:
    plan_of(subject, first)
    plan = plan_of(subject, second)
    before = stored_by_owner(plan.create.bare)
    Foreign(data.draw).add(before)
    once = rendered(before, subject, first, operation="UPDATE", old=before)
    edited = rendered(once, subject, second, operation="UPDATE", old=once)
    fresh = rendered(before, subject, second, operation="UPDATE", old=before)
    if {part[0] for part in foreign_parts(once)} == {part[0] for part in foreign_parts(before)}:
        for document in (edited, fresh):
            document["spec"].pop("replicas", None)
        assert index_by_name(remove_own_annotations(edited)) == index_by_name(remove_own_annotations(fresh))


# Examples of these properties.

ISTIO = container("istio-proxy", "istio:1")
NGINX = pod_template(containers=[container("nginx", "nginx:1")])


def with_sidecar(position: int = 1) -> dict[str, Any]:
    document = workload(template=copy.deepcopy(NGINX))
    document["spec"]["template"]["metadata"]["labels"] = dict(document["metadata"]["labels"])
    pod_spec(document)["containers"].insert(position, copy.deepcopy(ISTIO))
    return document


@pytest.mark.parametrize("position", [0, 1])
def test_adding_a_container_with_the_name_of_a_foreign_one_is_an_error(position: int) -> None:
    rule = overrider(entry("*", patches=[patch("add", f"{SPEC}/containers/-", container("istio-proxy", "mine:1"))]))
    answer = review(with_sidecar(position), yurt_app_set(template=NGINX), rule)
    assert not answer.allowed
    assert "entries[0].patches[0]: the workload already has a container 'istio-proxy'" in answer.message


# fleethook's own annotations.


def index_by_name(value: Any) -> Any:
    """Index lists of named elements by name, because the second overrider may add an element at another position."""
    if isinstance(value, dict):
        return {name: index_by_name(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted((index_by_name(inner) for inner in value), key=str)
    return value


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
