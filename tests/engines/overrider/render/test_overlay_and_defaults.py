"""Tests of the overlay of a template over a stored workload."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.precompiled_patch import compile_patch
from fleethook.engines.overrider.render.overlay_and_defaults import matches, overlay, settle
from fleethook.engines.overrider.render.undo_and_annotations import LastRender, read_last_render
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import render_with
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply, diff
from fleethook.workload_schema.pool_value_marks import PoolValues
from tests.builders import compile_plan, container, entry, overrider, pool, rendered, review, workload, yurt_app_set
from tests.hypothesis_profiles import examples

NO_SCHEMA = MergeSchema()


@pytest.mark.parametrize(
    ("current", "named", "expected"),
    [
        ({"httpGet": {"port": 80}}, {"exec": {"command": ["a"]}}, {"exec": {"command": ["a"]}}),
        ({"value": "a"}, {"valueFrom": {"fieldRef": {}}}, {"valueFrom": {"fieldRef": {}}}),
        ({"value": "a"}, {"value": "b"}, {"value": "b"}),
    ],
)
def test_an_exclusive_member_replaces_its_alternatives(current: Any, named: Any, expected: Any) -> None:
    assert overlay(current, named, NO_SCHEMA) == expected


NO_POOL = PoolValues("")


NAMES = st.sampled_from(["metadata", "spec", "template", "containers", "volumes", "env", "name", "args"])
SCALARS = st.sampled_from([None, True, 0, 1, "a", "b"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=4)


@st.composite
def covering(draw: Any, named: Any) -> Any:
    """A value that has the members of ``named``, with random changes."""
    if draw(st.integers(0, 12)) == 0:
        return draw(JSON)
    if isinstance(named, dict):
        return {**draw(OBJECTS), **{name: draw(covering(value)) for name, value in named.items()}}
    if isinstance(named, list):
        return [draw(covering(value)) for value in named]
    return named


@settings(max_examples=examples(500))
@given(st.data())
def test_overlay_changes_nothing_in_a_workload_that_matches(data: Any) -> None:
    named = data.draw(OBJECTS)
    document = data.draw(covering(named))
    if isinstance(document, dict) and matches(document, named, NO_POOL):
        assert overlay(document, named, WORKLOAD) is document


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


def plan_of(subject: Any, rule: Any) -> Plan:
    return compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)


def test_the_fast_path_equals_the_rule(sample: Sample) -> None:
    """The precompiled patch answers only where rendering has the same result."""
    plan = plan_of(sample.subject, sample.rule)
    fast = compile_patch(plan)
    if fast is None:
        return
    wanted, values = LastRender(plan.digest, plan.undo_text), PoolValues("hangzhou")
    for document in (sample.never, sample.stored):
        last_render = read_last_render(document)
        made = fast.operations_for(document, next_render=wanted, values=values) if last_render is None else None
        if last_render is not None and fast.is_settled(document, last_render, next_render=wanted, values=values):
            made = []
        if made is not None:
            assert apply(document, made) == render_with(plan, document, last_render=last_render, creating=False)


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
