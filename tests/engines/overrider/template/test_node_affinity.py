"""Tests of the parts of a template that all kinds of subjects share."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleethook.engines.overrider.template.node_affinity import (
    encode_settings,
    mark_settings,
    members_of,
    seed,
    shape_problem,
    without_create_only,
    without_reserved,
    workload_prefix,
)
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.value_marks import POOL_MARK, REPLICAS_MARK
from tests.builders import UID, container, pod_template, workload, yurt_app_set
from tests.workload_samples import full_deployment, full_stateful_set


def test_a_workload_starts_with_identity_owner_and_pool_label() -> None:
    subject = yurt_app_set()
    subject["metadata"]["annotations"] = {"kcp.io/cluster": "c1"}
    assert seed(YURT_APP_SET, subject, kind="Deployment", pool="hangzhou") == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "generateName": "demo-hangzhou-",
            "namespace": "default",
            "labels": {"apps.openyurt.io/pool-name": "hangzhou"},
            "annotations": {"kcp.io/cluster": "c1"},
            "ownerReferences": [
                {
                    "apiVersion": "apps.openyurt.io/v1alpha1",
                    "kind": "YurtAppSet",
                    "name": "demo",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {},
    }


def test_a_manifest_without_uid_and_namespace_gives_none_to_the_workload() -> None:
    subject = {**yurt_app_set(), "metadata": {"name": "demo"}}
    metadata = seed(YURT_APP_SET, subject, kind="StatefulSet", pool="a")["metadata"]
    assert sorted(metadata) == ["generateName", "labels", "ownerReferences"]
    assert "uid" not in metadata["ownerReferences"][0]


@pytest.mark.parametrize(
    ("pool", "prefix"), [("a", "demo-a-"), ("A_b", "demo-"), ("a" * 250, "demo-"), (POOL_MARK, f"demo-{POOL_MARK}-")]
)
def test_the_name_omits_a_pool_that_would_make_it_invalid(pool: str, prefix: str) -> None:
    assert workload_prefix("demo", pool) == prefix


def test_an_update_leaves_out_the_fields_that_only_a_creation_sets() -> None:
    named: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"replicas": 2, "selector": {}, "serviceName": "s", "template": {}},
    }
    assert without_create_only(named) == {"metadata": named["metadata"], "spec": {"template": {}}}


def test_null_members_are_absent_and_other_values_are_shared() -> None:
    inner = {"list": [{"a": 1}]}
    assert members_of({"x": None, "inner": inner, "y": [{"z": None}]}) == {"inner": inner, "y": [{}]}
    assert members_of(inner) is inner
    assert members_of("text") == {}


def test_annotations_of_fleethook_are_left_out() -> None:
    assert without_reserved({"fleethook.io/undo": "{}", "a": "b", "c": None}) == {"a": "b"}


NAMES = st.sampled_from(["a", "b", "key", 'a"', "\\a", "x-a"])


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Return the settings of a pool whose name occurs in its placement, alone or within other texts."""
    name = draw(NAMES)
    texts = st.sampled_from([name, f"{name}-x", f'"{name}', "b", POOL_MARK])
    config: dict[str, Any] = {"name": name}
    if draw(st.booleans()):
        expression = {"key": draw(texts), "operator": "In", "values": draw(st.lists(texts, max_size=2))}
        config["nodeSelectorTerm"] = {"matchExpressions": [expression]}
    if draw(st.booleans()):
        config["tolerations"] = [{draw(st.sampled_from(["key", name])): draw(texts)}]
    if draw(st.booleans()):
        config["replicas"] = draw(st.none() | st.integers(0, 2))
    if draw(st.booleans()):
        config["patch"] = {"metadata": {"name": name}}
    return config


@given(settings(), settings())
@example({"name": "a", "tolerations": [{"a": "a"}]}, {"name": "b", "tolerations": [{"b": "b"}]})
@example({"name": "a", "tolerations": [{"key": "a"}]}, {"name": 'a"', "tolerations": [{"key": 'a"'}]})
def test_pools_share_encoded_settings_if_they_share_marked_ones(one: dict[str, Any], other: dict[str, Any]) -> None:
    encoded = [encode_settings(config, None) for config in (one, other)]
    assert (encoded[0] == encoded[1]) == (mark_settings(one) == mark_settings(other))


def test_name_and_replicas_are_marked_and_a_patch_is_not() -> None:
    config = {"name": "a", "replicas": 3, "tolerations": [{"key": "a"}], "patch": {"name": "a"}}
    assert mark_settings(config) == {
        "name": POOL_MARK,
        "replicas": REPLICAS_MARK,
        "tolerations": [{"key": POOL_MARK}],
        "patch": {"name": "a"},
    }
    assert mark_settings({"name": "a", "replicas": None}) == {"name": POOL_MARK, "replicas": None}
    assert mark_settings(None) is None


@pytest.mark.parametrize("config", [None, {"name": "a"}])
def test_taints_belong_to_the_settings(config: dict[str, Any] | None) -> None:
    assert encode_settings(config, [{"key": "x"}]) != encode_settings(config, None)
    assert encode_settings(config, [{"key": "x"}]) == encode_settings(config, [{"key": "x"}])


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_full_workloads_have_the_shape() -> None:
    assert shape_problem(full_deployment()) is None
    assert shape_problem(full_stateful_set()) is None


def test_null_and_unknown_members_have_the_shape() -> None:
    assert shape_problem(workload(template={"metadata": None, "spec": {"containers": None, "new": 1}})) is None


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"selector": []}, "$.spec.selector"),
        ({"selector": {"matchLabels": "a"}}, "$.spec.selector.matchLabels"),
        ({"template": "a"}, "$.spec.template"),
        ({"template": {"metadata": {"labels": ["a"]}}}, "$.spec.template.metadata.labels"),
        ({"template": pod_template(containers=["nginx"])}, "$.spec.template.spec.containers[0]"),
        ({"template": pod_template(containers={"a": container()})}, "$.spec.template.spec.containers"),
        ({"template": pod_template(tolerations=[None])}, "$.spec.template.spec.tolerations[0]"),
        ({"template": pod_template(affinity={"nodeAffinity": []})}, "$.spec.template.spec.affinity.nodeAffinity"),
        (
            {"template": pod_template(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": 1}]}}})},
            f"$.spec.template.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields",
        ),
    ],
)  # fmt: skip
def test_a_wrong_type_is_named_with_its_path(spec: dict[str, Any], path: str) -> None:
    problem = shape_problem(workload(**spec))
    assert problem is not None
    assert problem.endswith(f"`{path}`")
