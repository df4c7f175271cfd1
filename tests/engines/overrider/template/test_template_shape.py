"""Tests of the shape that rendering requires of a workload."""

from typing import Any

import pytest

from fleethook.engines.overrider.template.template_shape import shape_problem
from tests.builders import container, pod_template, workload
from tests.workload_samples import full_deployment, full_stateful_set

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
