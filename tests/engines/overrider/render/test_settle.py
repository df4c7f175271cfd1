"""Undo and rendering with the defaults of kube-apiserver, as it stored them (tests/conformance/overrider_undo.yaml)."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.overrider.entries.value_marks import PoolValues
from fleethook.engines.overrider.plan.plan import Plan, compile_plan
from fleethook.engines.overrider.render.render import render_with
from fleethook.engines.overrider.render.settle import settle
from fleethook.engines.overrider.render.undo import Memory, remembered
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply, diff
from tests.builders import container, entry, image, overrider, pool, rendered, review, workload, yurt_app_set

CASES = yaml.safe_load((Path(__file__).parents[3] / "conformance" / "overrider_undo.yaml").read_text())


def with_spec(spec: Any, annotations: Any = None) -> dict[str, Any]:
    made = workload()
    made["spec"] = copy.deepcopy(spec)
    made["metadata"]["annotations"] |= annotations or {}
    return made


class Sample:
    """A case with its objects."""

    def __init__(self, case: Any) -> None:
        self.subject = yurt_app_set(pools=[pool("hangzhou")], **copy.deepcopy(case["template"]))
        self.rule = overrider(entry("*", patches=case["patches"]))
        self.never = with_spec(case["never"])
        created = rendered(self.never, self.subject, self.rule)
        self.stored = with_spec(case["stored"], created["metadata"]["annotations"])


@pytest.fixture(params=CASES, ids=lambda one: one["name"])
def sample(request: pytest.FixtureRequest) -> Sample:
    return Sample(request.param)


def test_a_second_review_changes_nothing(sample: Sample) -> None:
    assert not review(sample.stored, sample.subject, sample.rule, operation="UPDATE", old=sample.stored).patch


def test_the_owner_s_write_of_the_template_is_rendered_again(sample: Sample) -> None:
    annotations = sample.stored["metadata"]["annotations"]
    written = with_spec(sample.never["spec"], annotations)
    made = rendered(written, sample.subject, sample.rule, operation="UPDATE", old=sample.stored)
    assert made == rendered(with_spec(sample.never["spec"]), sample.subject, sample.rule)


def test_without_the_overrider_only_defaults_are_left_to_kube_apiserver(sample: Sample) -> None:
    made = rendered(sample.stored, sample.subject, operation="UPDATE", old=sample.stored)
    missing = [one for one in diff(made, sample.never) if one["op"] != "add"]
    assert not missing
    assert settle(sample.never, sample.never, made, target=None) == sample.never


def test_a_deletion_of_a_former_release_s_override_removes_an_added_object() -> None:
    """The former format lists each member of an object, and not whether the overrider added the object."""
    sample = Sample(next(one for one in CASES if one["name"] == "an added probe"))
    undo = '{"spec":{"template":{"spec":{"containers":[{"livenessProbe":{"httpGet":{"path":null,"port":null}},"name":"app"}]}}}}'
    sample.stored["metadata"]["annotations"] |= {
        "fleethook.io/rendered": "0123456789abcdef",
        "fleethook.io/undo": undo,
    }
    made = rendered(sample.stored, sample.subject, operation="UPDATE", old=sample.stored)
    assert made == sample.never


def plan_of(subject: Any, rule: Any) -> Plan:
    return compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)


def test_the_fast_path_equals_the_rule(sample: Sample) -> None:
    """The precompiled patch answers only where rendering has the same result."""
    plan = plan_of(sample.subject, sample.rule)
    if plan.fast is None:
        return
    wanted, values = Memory(plan.digest, plan.undo_text), PoolValues("hangzhou")
    for document in (sample.never, sample.stored):
        memory = remembered(document)
        made = plan.fast.operations_for(document, wanted=wanted, values=values) if memory is None else None
        if memory is not None and plan.fast.is_settled(document, memory, wanted=wanted, values=values):
            made = []
        if made is not None:
            assert apply(document, made) == render_with(plan, document, memory=memory, creating=False)


@pytest.mark.parametrize(
    ("image_name", "policy", "kept"),
    [
        ("app", "Always", True), ("app:latest", "Always", True), ("host:5000/app", "Always", True),
        ("app:1", "IfNotPresent", True), ("app@sha256:1", "IfNotPresent", True), ("app:1", "Never", False),
    ],
)  # fmt: skip
def test_the_default_pull_policy_of_an_image_is_kept(image_name: str, policy: str, *, kept: bool) -> None:
    """An overrider that removes the policy of the template leaves the default of kube-apiserver."""
    made = workload(template={"spec": {"containers": [container("app", image_name)]}})
    stored = workload(template={"spec": {"containers": [container("app", image_name, imagePullPolicy=policy)]}})
    assert (settle(stored, stored, made, target=None) == stored) is kept


def test_an_added_object_keeps_members_of_other_writers_at_the_next_render() -> None:
    sample = Sample(next(one for one in CASES if one["name"] == "an added probe"))
    edited = copy.deepcopy(sample.stored)
    edited["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["initialDelaySeconds"] = 7
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs:1"
    made = rendered(edited, sample.subject, sample.rule, operation="UPDATE", old=sample.stored)
    assert made["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["initialDelaySeconds"] == 7


def test_an_edit_removes_a_member_that_only_the_former_overrider_set() -> None:
    sample = Sample(next(one for one in CASES if one["name"] == "an added probe"))
    with_delay = copy.deepcopy(sample.rule)
    with_delay["entries"][0]["patches"][0]["value"]["initialDelaySeconds"] = 7
    first = rendered(sample.never, sample.subject, with_delay)
    made = rendered(first, sample.subject, sample.rule, operation="UPDATE", old=first)
    assert "initialDelaySeconds" not in made["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]


def test_an_edit_of_an_image_keeps_everything_else() -> None:
    sample = Sample(next(one for one in CASES if one["name"] == "an added container"))
    edited = overrider(*sample.rule["entries"], entry("*", items=[image("app", "app:2")]))
    made = rendered(sample.stored, sample.subject, edited, operation="UPDATE", old=sample.stored)
    changed = {one["path"] for one in diff(sample.stored["spec"], made["spec"]) if one["op"] != "remove"}
    assert changed == {"/template/spec/containers/0/image"}
