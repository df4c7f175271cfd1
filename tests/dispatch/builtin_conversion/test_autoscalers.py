"""HorizontalPodAutoscalers in v1, with annotations, and in v2."""

import json
from typing import Any

import pytest

from app.dispatch.builtin_conversion.autoscalers import convert_autoscaler

PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"kind": "Deployment", "name": "demo", "apiVersion": "apps/v1"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "tolerance": "100m",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
    },
    "scaleDown": {"selectPolicy": "Disabled"},
}  # fmt: skip
CONDITION = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ready"}


def v2(spec: dict[str, Any] | None = None, status: Any = None, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "demo", **({"annotations": annotations} if annotations else {})}
    full = {"scaleTargetRef": TARGET, "maxReplicas": 5, **(spec or {})}
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": full,
        "status": status or {},
    }  # fmt: skip


def v1(spec: dict[str, Any] | None = None, status: Any = None, annotations: Any = None) -> dict[str, Any]:
    made = v2(spec, status)
    made["metadata"]["annotations"] = annotations or {}
    return {**made, "apiVersion": "autoscaling/v1"}


def to_v1(document: dict[str, Any]) -> dict[str, Any]:
    return convert_autoscaler(document, "autoscaling/v1")


def to_v2(document: dict[str, Any]) -> dict[str, Any]:
    return convert_autoscaler(document, "autoscaling/v2")


def test_the_cpu_utilization_is_a_member_and_other_metrics_are_an_annotation() -> None:
    found = to_v1(v2({"metrics": [MEMORY, CPU], "minReplicas": 2}))
    assert found["apiVersion"] == "autoscaling/v1"
    assert found["spec"] == {
        "scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60,
    }  # fmt: skip
    assert found["metadata"]["annotations"] == {
        f"{PREFIX}metrics": '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]'
    }


def test_every_member_of_v2_comes_back_from_v1() -> None:
    status = {
        "desiredReplicas": 3, "currentReplicas": 2, "observedGeneration": 4, "conditions": [CONDITION],
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "1", "averageUtilization": 7}}}
        ],
    }  # fmt: skip
    full = v2({"metrics": [MEMORY, CPU], "behavior": BEHAVIOR}, status, note="kept")
    between = to_v1(full)
    assert between["status"]["currentCPUUtilizationPercentage"] == 7
    assert between["metadata"]["annotations"]["note"] == "kept"
    assert to_v2(between) == full


def test_the_last_cpu_status_and_the_first_cpu_metric_count() -> None:
    def cpu(number: int) -> dict[str, Any]:
        target = {"type": "Utilization", "averageUtilization": number}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target, "current": target}}

    found = to_v1(v2({"metrics": [cpu(1), cpu(2)]}, {"currentMetrics": [cpu(3), cpu(4)]}))
    assert found["spec"]["targetCPUUtilizationPercentage"] == 1
    assert found["status"]["currentCPUUtilizationPercentage"] == 4


def test_without_any_metric_v2_has_the_default_utilization() -> None:
    (metric,) = to_v2(v1())["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    (metric,) = to_v2(v1({"targetCPUUtilizationPercentage": 0}))["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 0


def test_a_cpu_status_of_v1_is_a_metric_unless_the_annotation_has_metrics() -> None:
    status = {"currentCPUUtilizationPercentage": 9}
    (metric,) = to_v2(v1(status=status))["status"]["currentMetrics"]
    assert metric["resource"]["current"] == {"averageUtilization": 9}
    assert to_v2(v1(status=status, annotations={f"{PREFIX}current-metrics": "[]"}))["status"]["currentMetrics"] == []


@pytest.mark.parametrize("text", ["{", '{"type": "Pods"}', "7", '[{"pods": 7}]', '[{"type": 7}]', "[" * 100_000, ""])
@pytest.mark.parametrize("name", ["metrics", "current-metrics", "conditions", "behavior"])
def test_an_invalid_annotation_is_ignored_and_dropped(name: str, text: str) -> None:
    found = to_v2(v1(annotations={f"{PREFIX}{name}": text, "note": "kept"}))
    assert found["metadata"]["annotations"] == {"note": "kept"}
    (metric,) = found["spec"]["metrics"]
    assert metric["resource"]["name"] == "cpu"


def test_names_in_annotations_are_read_in_any_case() -> None:
    metrics = [{"TYPE": "Resource", "Resource": {"NAME": "memory", "targetaveragevalue": "1Gi"}}]
    behavior = {"scaleup": {"policies": [{"type": "Pods", "value": 1, "periodseconds": 2}]}}
    annotations = {f"{PREFIX}metrics": json.dumps(metrics), f"{PREFIX}behavior": json.dumps(behavior)}
    spec = to_v2(v1(annotations=annotations))["spec"]
    assert spec["metrics"] == [MEMORY]
    assert spec["behavior"] == {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}}


def test_missing_parts_become_gos_zero_values() -> None:
    bare = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    assert to_v1(bare) == {
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {},
        "spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0},
        "status": {"desiredReplicas": 0, "currentReplicas": 0},
    }  # fmt: skip
