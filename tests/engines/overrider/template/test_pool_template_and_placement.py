"""Tests of the parts of a template that all kinds of subjects share."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleethook.engines.overrider.template.pool_template_and_placement import (
    encode_settings,
    mark_settings,
    shape_problem,
)
from fleethook.workload_schema.pool_value_marks import POOL_MARK
from tests.builders import container, pod_template, workload
from tests.workload_samples import full_deployment, full_stateful_set

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


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_full_workloads_have_the_shape() -> None:
    assert shape_problem(full_deployment()) is None
    assert shape_problem(full_stateful_set()) is None


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
