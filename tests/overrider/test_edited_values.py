"""Tests that the patch after an edit of values equals the patch of a render."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from app.model.openyurt import YURT_APP_SET
from app.overrider.edited_values import EditedValue, is_replaceable, set_values
from app.overrider.plan import Plan, compile_plan
from app.overrider.pool_mark import POOL_MARK, PoolValues
from app.overrider.pool_template import SubjectError
from app.overrider.render import render_with
from app.overrider.steps import RenderError
from app.overrider.undo import Memory, remembered
from app.patch import apply, identical
from tests.builders import container, entry, image, overrider, patch, pod_spec, rendered, request, review, yurt_app_set
from tests.overrider.worlds import EXAMPLES, OVERRIDERS, SPEC, SUBJECTS, Foreign, can_exist, stored_by_owner

PROPERTY = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
HANGZHOU = PoolValues("hangzhou")


def plan_of(subject: Any, rule: Any) -> Plan:
    return compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)


KEPT = {"name", "path", "operation", "containerName", "pools", "type", "key", "protocol"}
SIMPLE = {"imageClaim", "replicas"}


def with_other_values(value: Any, other: Callable[[str, Any], Any], member: str = "") -> Any:
    """Return an overrider's entries with other values and the same names and paths."""
    if isinstance(value, dict):
        return {name: inner if name in KEPT else with_other_values(inner, other, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_other_values(one, other, member) for one in value]
    return other(member, value)


@PROPERTY
@given(SUBJECTS, OVERRIDERS, st.data())
def test_an_edit_of_values_has_the_patch_of_a_render(subject: Any, rule: Any, data: Any) -> None:
    simple = data.draw(st.integers(0, 3)) > 0

    def other(member: str, value: Any) -> Any:
        if value is None or isinstance(value, bool) or (simple and member not in SIMPLE):
            return value
        return value + 1 if isinstance(value, int) else f"{value}0"

    always = entry("*", items=[{"replicas": 5}, image("m-a", "item:1")])
    rule = {**rule, "entries": [always, *rule["entries"]]}
    edited = {**rule, "entries": with_other_values(copy.deepcopy(rule["entries"]), other)}
    try:
        before, plan = plan_of(subject, rule), plan_of(subject, edited)
    except (RenderError, SubjectError):
        assume(condition=False)
    assume(before.steps and plan.steps and before.digest != plan.digest and can_exist(before.bare))
    workload = stored_by_owner(before.bare)
    if data.draw(st.integers(0, 3)) == 0:
        Foreign(data.draw).add(workload)
    assume(review(workload, subject, rule, operation="UPDATE", old=workload).allowed)
    workload = rendered(workload, subject, rule, operation="UPDATE", old=workload)
    if data.draw(st.integers(0, 3)) == 0:
        pod_spec(workload).get("containers", [{}])[0]["image"] = "theirs:1"
    try:
        expected = render_with(plan, workload, memory=remembered(workload), creating=False)
    except RenderError:
        assert not review(workload, subject, edited, operation="UPDATE", old=workload).allowed
        return
    assert identical(rendered(workload, subject, edited, operation="UPDATE", old=workload), expected)
    event(f"without rendering: {operations_of(plan, workload) is not None}")


def operations_of(plan: Plan, workload: Any) -> Any:
    memory = remembered(workload)
    if plan.fast is None or memory is None:
        return None
    wanted = Memory(plan.digest, plan.undo_text)
    return plan.fast.operations_after_edit(workload, memory, wanted=wanted, values=HANGZHOU)


def rule_of(tag: str, *, replicas: int = 5, **added: Any) -> Any:
    variable = {"name": "REGION", "value": "{{nodepool}}", **added}
    patches = [
        patch("add", f"{SPEC}/containers/0/env/-", variable),
        patch("add", f"{SPEC}/containers/0", container("first")),
        patch("replace", f"{SPEC}/containers/[name=nginx]/args/0", f"--tag={tag}"),
    ]
    items = [image("nginx", f"{{{{nodepool}}}}/nginx:{tag}"), {"replicas": replicas}]
    return overrider(entry("*", items=items, patches=patches))


def subject_of(**fields: Any) -> Any:
    made = container(args=["--tag=0", "--quiet"], env=[{"name": "A", "value": "1"}], **fields)
    return yurt_app_set(template={"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [made]}})


def rendered_workload(subject: Any, rule: Any) -> Any:
    bare = stored_by_owner(plan_of(subject, None).bare)
    return rendered(bare, subject, rule, operation="UPDATE", old=bare)


def test_edits_of_images_arguments_and_replicas_need_no_rendering() -> None:
    subject = subject_of()
    workload = rendered_workload(subject, rule_of("1"))
    plan = plan_of(subject, rule_of("2", replicas=6))
    operations = operations_of(plan, workload)
    assert [(one["op"], one["path"], one["value"]) for one in operations] == [
        ("replace", "/metadata/annotations/fleethook.io~1rendered", plan.digest),
        ("replace", f"{SPEC}/containers/1/image", "hangzhou/nginx:2"),
        ("replace", f"{SPEC}/containers/1/args", ["--tag=2", "--quiet"]),
        ("add", "/spec/replicas", 6),
    ]
    assert apply(workload, operations) == render_with(plan, workload, memory=remembered(workload), creating=False)


def test_an_edit_without_effect_on_a_workload_changes_only_its_hash() -> None:
    subject = subject_of()
    workload = rendered_workload(subject, rule_of("1"))
    workload["metadata"]["annotations"]["fleethook.io/rendered"] = "0123456789abcdef"
    operations = operations_of(plan_of(subject, rule_of("1")), workload)
    assert [one["path"] for one in operations] == ["/metadata/annotations/fleethook.io~1rendered"]


def loses_its_hash(workload: Any) -> None:
    del workload["metadata"]["annotations"]["fleethook.io/rendered"]


def loses_an_added_variable(workload: Any) -> None:
    del pod_spec(workload)["containers"][1]["env"][1]


def gets_a_container(workload: Any) -> None:
    pod_spec(workload)["containers"].append(container("theirs"))


def loses_its_image(workload: Any) -> None:
    del pod_spec(workload)["containers"][1]["image"]


def gets_another_variable(workload: Any) -> None:
    pod_spec(workload)["containers"][1]["env"][0]["value"] = "theirs"


def gets_an_argument_of_no_text(workload: Any) -> None:
    pod_spec(workload)["containers"][1]["args"] = [1]


CHANGES = [
    loses_its_hash, loses_an_added_variable, gets_a_container, loses_its_image, gets_another_variable,
    gets_an_argument_of_no_text,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_workload_that_another_client_changed_is_rendered(change: Callable[[Any], None]) -> None:
    subject = subject_of()
    workload = rendered_workload(subject, rule_of("1"))
    change(workload)
    assert operations_of(plan_of(subject, rule_of("2")), workload) is None


@pytest.mark.parametrize(
    "edited",
    [
        overrider(entry("*", items=[image("nginx", "nginx:2")])),
        rule_of("2", value="fixed"),
        overrider(*rule_of("2")["entries"], entry("*", items=[{"labels": {"more": "1"}}])),
    ],
)
def test_an_edit_that_adds_or_removes_members_is_rendered(edited: Any) -> None:
    subject = subject_of()
    assert operations_of(plan_of(subject, edited), rendered_workload(subject, rule_of("1"))) is None


def test_an_edit_that_removes_a_label_is_rendered() -> None:
    subject, label = subject_of(), entry("*", items=[{"labels": {"more": "1"}}])
    workload = rendered_workload(subject, overrider(*rule_of("1")["entries"], label))
    assert operations_of(plan_of(subject, rule_of("2")), workload) is None
    assert (
        "more" not in rendered(workload, subject, rule_of("2"), operation="UPDATE", old=workload)["metadata"]["labels"]
    )


def test_values_of_another_type_are_not_replaced() -> None:
    assert is_replaceable("a", "b")
    assert is_replaceable(["a"], [])
    for present, value in [(1, "1"), (1, True), (None, None), ({}, {}), (["a"], [1]), ([{}], []), (1.0, 1)]:
        assert not is_replaceable(present, value), (present, value)


def test_set_values_does_not_modify_the_workload() -> None:
    workload = {"spec": {"list": [{"image": "a", "args": ["x"]}], "kept": {}}}
    before = copy.deepcopy(workload)
    edited = [
        EditedValue(("spec", "list", 0, "image"), "/spec/list/0/image", f"b-{POOL_MARK}"),
        EditedValue(("spec", "list", 0, "args"), "/spec/list/0/args", ["x"]),
    ]
    made, operations = set_values(workload, edited, HANGZHOU) or ({}, [])
    assert made == {"spec": {"list": [{"image": "b-hangzhou", "args": ["x"]}], "kept": {}}}
    assert operations == [{"op": "replace", "path": "/spec/list/0/image", "value": "b-hangzhou"}]
    assert workload == before
    assert made["spec"]["kept"] is workload["spec"]["kept"]


def test_a_warning_still_names_a_replaced_value() -> None:
    subject, rule = subject_of(), rule_of("1")
    stored = rendered_workload(subject, rule)
    wanted = copy.deepcopy(stored)
    pod_spec(wanted)["containers"][1]["image"] = "theirs:1"
    answer = review(wanted, subject, rule_of("2"), operation="UPDATE", old=stored)
    assert ['"theirs:1" is replaced by "hangzhou/nginx:2"' in one for one in answer.warnings] == [True]
    touched = copy.deepcopy(stored)
    touched["metadata"]["annotations"]["note"] = "x"
    assert request(touched, "UPDATE", stored).object_raw != request(touched, "UPDATE", stored).old_object_raw
    assert review(touched, subject, rule_of("2"), operation="UPDATE", old=stored).warnings == ()
