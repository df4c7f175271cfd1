"""Tests of the overlay of a template over a stored workload."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.plan.plan import Plan, compile_patch, compile_plan
from fleethook.engines.overrider.render.overlay import covers, matches, overlay, settle
from fleethook.engines.overrider.render.render import render_with
from fleethook.engines.overrider.render.undo import Memory, remembered
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply, diff
from fleethook.workload_schema.value_marks import PoolValues
from tests.builders import container, entry, image, overrider, pool, rendered, review, workload, yurt_app_set
from tests.hypothesis_profiles import examples

NO_SCHEMA = MergeSchema()
POD_SPEC = WORKLOAD.fields["spec"].fields["template"].fields["spec"]


def test_an_object_that_has_every_named_member_is_returned_itself() -> None:
    current = {"spec": {"replicas": 2, "paused": True}}
    assert overlay(current, {"spec": {"replicas": 2}}, NO_SCHEMA) is current


def test_unnamed_members_and_elements_stay_in_their_place() -> None:
    current = {"containers": [container("istio"), container("nginx", "nginx:1"), container("log")], "hostNetwork": True}
    made = overlay(current, {"containers": [container("nginx", "nginx:2")]}, POD_SPEC)
    assert [one["image"] for one in made["containers"]] == ["nginx:1.0", "nginx:2", "nginx:1.0"]
    assert made["hostNetwork"] is True
    assert current["containers"][1]["image"] == "nginx:1"


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


def test_another_volume_source_replaces_the_former_one() -> None:
    current = {"volumes": [{"name": "v", "emptyDir": {}}]}
    made = overlay(current, {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]}, POD_SPEC)
    assert made == {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]}


def test_an_atomic_list_is_replaced_as_a_whole() -> None:
    assert overlay({"args": ["a", "b"]}, {"args": ["c"]}, NO_SCHEMA) == {"args": ["c"]}


def test_an_atomic_list_with_defaulted_members_stays() -> None:
    current = {"rules": [{"name": "a", "mode": "default"}]}
    assert overlay(current, {"rules": [{"name": "a"}]}, NO_SCHEMA) is current


@pytest.mark.parametrize(
    ("current", "named", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"a": 1, "b": 2}], [{"a": 1}], True),
        ([{"a": 1}, {"a": 2}], [{"a": 1}], False),
        ("a", "b", False),
    ],
)
def test_covers_allows_additional_members_but_no_additional_elements(
    current: Any, named: Any, *, expected: bool
) -> None:
    assert covers(current, named) is expected


NAMED: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}, "annotations": {}},
    "spec": {
        "paused": False,
        "template": {
            "spec": {
                "serviceAccountName": "sa",
                "containers": [{"name": "c", "image": "i:1", "args": ["x", "y"], "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }
        },
    },
}


NO_POOL = PoolValues("")


def stored() -> dict[str, Any]:
    """NAMED as an apiserver returns it, with defaults and labels of other clients."""
    document = copy.deepcopy(NAMED)
    document["metadata"]["labels"]["theirs"] = "1"
    document["metadata"]["annotations"]["theirs"] = "1"
    spec = document["spec"]["template"]["spec"]
    spec["restartPolicy"] = "Always"
    spec["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    spec["containers"][0]["ports"][0]["protocol"] = "TCP"
    return document


def test_members_of_other_clients_and_defaults_are_ignored() -> None:
    assert matches(NAMED, NAMED, NO_POOL)
    assert matches(stored(), NAMED, NO_POOL)


POD = ("spec", "template", "spec")
CHANGES: list[tuple[tuple[Any, ...], Any]] = [
    (("metadata", "labels", "app"), "b"),
    (("spec", "paused"), True),
    ((*POD, "serviceAccountName"), "other"),
    ((*POD, "containers", 0, "image"), "i:2"),
    ((*POD, "containers", 0, "args"), ["y", "x"]),
    ((*POD, "containers", 0, "args"), ["x"]),
    ((*POD, "containers", 0, "args"), "x"),
    ((*POD, "containers", 0, "ports", 0, "containerPort"), 81),
    ((*POD, "containers"), []),
    ((*POD, "containers"), {}),
    ((*POD, "volumes", 0), "v"),
    ((*POD, "volumes", 0, "emptyDir"), None),
    (("metadata",), "text"),
    (("spec", "template"), []),
]


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=str)
def test_a_changed_member_does_not_match(path: tuple[Any, ...], value: Any) -> None:
    document = stored()
    target: Any = document
    for token in path[:-1]:
        target = target[token]
    target[path[-1]] = value
    assert not matches(document, NAMED, NO_POOL)
    del target[path[-1]]
    assert not matches(document, NAMED, NO_POOL)


@pytest.mark.parametrize("document", [None, [], "text", 1, {}])
def test_other_values_do_not_match(document: Any) -> None:
    assert not matches(document, NAMED, NO_POOL)


def test_a_longer_list_does_not_match() -> None:
    document = stored()
    document["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    assert not matches(document, NAMED, NO_POOL)


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
    wanted, values = Memory(plan.digest, plan.undo_text), PoolValues("hangzhou")
    for document in (sample.never, sample.stored):
        memory = remembered(document)
        made = fast.operations_for(document, wanted=wanted, values=values) if memory is None else None
        if memory is not None and fast.is_settled(document, memory, wanted=wanted, values=values):
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
