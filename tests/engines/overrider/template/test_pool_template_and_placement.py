"""The patch and the placement of a node pool, and the shape of a workload."""

from typing import Any

import pytest

from fleethook.engines.overrider.template.pool_template_and_placement import shape_problem
from tests.builders import NEW_IMAGE, container, pod_spec, pod_template, pool, rendered, workload, yurt_app_set
from tests.workload_samples import full_deployment, full_stateful_set

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


TERM = {"matchExpressions": [{"key": "apps.openyurt.io/nodepool", "operator": "In", "values": ["hangzhou"]}]}


def required(document: dict[str, Any]) -> Any:
    affinity = pod_spec(document).get("affinity", {})
    return affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")


def test_the_pools_node_selector_term_and_tolerations_are_added_once() -> None:
    toleration = {"key": "edge", "operator": "Exists"}
    subject = yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM, tolerations=[toleration])])
    once = rendered(workload(), subject, NEW_IMAGE)
    assert required(once) == {"nodeSelectorTerms": [TERM]}
    assert pod_spec(once)["tolerations"] == [toleration]
    assert rendered(once, subject, NEW_IMAGE, operation="UPDATE", old=once) == once


def test_an_empty_node_selector_term_is_never_left_behind() -> None:
    living = workload()
    nothing = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    pod_spec(living)["affinity"] = {"nodeAffinity": nothing}
    assert "affinity" not in pod_spec(rendered(living, yurt_app_set(), NEW_IMAGE))


@pytest.mark.parametrize(
    ("template", "selector", "resources"),
    [
        ({}, {"site": ""}, {"limits": {"cpu": "0"}}),
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}, {"limits": {"cpu": "0"}}),
        ({"nodeSelector": {"site": "a", "disk": "ssd"}}, {"disk": "ssd"}, {"limits": {"cpu": "0"}}),
    ],
)
def test_a_null_of_a_pools_patch_is_an_empty_value_where_the_template_lacks_the_map(
    template: dict[str, Any], selector: dict[str, str], resources: dict[str, Any]
) -> None:
    # k8s.io/apimachinery v0.22, which OpenYurt 1.4.4 has: StrategicMergeMapPatch and FromUnstructured.
    app = {"name": "nginx", "resources": {"limits": {"cpu": None}}, "workingDir": None}
    own = {"spec": {"template": {"spec": {"nodeSelector": {"site": None}, "containers": [app]}}}}
    subject = yurt_app_set(pools=[pool("hangzhou", patch=own)], template=pod_template(**template))
    spec = rendered(workload(), subject, NEW_IMAGE)["spec"]["template"]["spec"]
    assert (spec["nodeSelector"], spec["containers"][0]["resources"]) == (selector, resources)
    assert "workingDir" not in spec["containers"][0]


def test_the_pools_patch_is_merged_strategically_and_wins_over_its_replicas() -> None:
    own = {"spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "nginx", "tty": True}]}}}}
    result = rendered(workload(), yurt_app_set(pools=[pool("hangzhou", patch=own)]), NEW_IMAGE)
    assert result["spec"]["replicas"] == 6
    assert pod_spec(result)["containers"] == [container(image="nginx:2.0", tty=True)]
    assert result["metadata"]["annotations"]["apps.openyurt.io/patch"] == (
        '{"spec":{"replicas":6,"template":{"spec":{"containers":[{"name":"nginx","tty":true}]}}}}'
    )
