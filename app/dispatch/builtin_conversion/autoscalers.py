"""Converts HorizontalPodAutoscalers: ``autoscaling/v1`` has annotations for the newer members of ``autoscaling/v2``.

Upstream: pkg/apis/autoscaling/v1/conversion.go and annotations.go.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from app.dispatch.builtin_conversion.autoscaler_metrics import (
    METRIC_NAMES,
    convert_reference,
    to_v1_metric,
    to_v1_status,
    to_v2_metric,
    to_v2_status,
)
from app.dispatch.builtin_conversion.go_json import (
    as_string,
    as_struct,
    as_structs,
    fold_member_names,
    go_json,
    omit_empty,
    omit_null,
)
from app.model.json import JSON, JSONObject

T = TypeVar("T")

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT_METRICS: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_TOLERANCES: Final = (f"{_PREFIX}scale-down-tolerance", f"{_PREFIX}scale-up-tolerance")
_ROUND_TRIP: Final = (_METRICS, _CURRENT_METRICS, _CONDITIONS, _BEHAVIOR, *_TOLERANCES)
_DEFAULT_CPU_UTILIZATION: Final = 80
_BEHAVIOR_NAMES: Final = {
    name.lower(): name
    for name in (
        "ScaleUp", "ScaleDown", "StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance", "Type", "Value",
        "PeriodSeconds",
    )
}  # fmt: skip
_CONDITION_NAMES: Final = {name.lower(): name for name in ("type", "status", "lastTransitionTime", "reason", "message")}


def convert_autoscaler(autoscaler: JSONObject, api_version: str) -> JSONObject:
    """Convert a HorizontalPodAutoscaler to the other version."""
    return (_to_v1 if api_version == "autoscaling/v1" else _to_v2)(autoscaler)


def _to_v1(autoscaler: JSONObject) -> JSONObject:
    spec, status = as_struct(autoscaler.get("spec")), as_struct(autoscaler.get("status"))
    metrics, current = as_structs(spec.get("metrics")), as_structs(status.get("currentMetrics"))
    utilizations = [_read_cpu(metric, "target") for metric in metrics]
    annotations = omit_empty(
        **{
            _METRICS: [to_v1_metric(one) for one, cpu in zip(metrics, utilizations, strict=True) if cpu is None],
            _CURRENT_METRICS: [to_v1_status(one) for one in current],
            _CONDITIONS: [_convert_condition(one) for one in as_structs(status.get("conditions"))],
            _BEHAVIOR: None if spec.get("behavior") is None else _to_v1_behavior(as_struct(spec["behavior"])),
        }
    )
    currently = [found for one in current if (found := _read_cpu(one, "current")) is not None]
    return {
        "apiVersion": "autoscaling/v1",
        "kind": autoscaler["kind"],
        "metadata": _build_metadata(autoscaler, {name: go_json(value) for name, value in annotations.items()}),
        "spec": {
            **_build_common_spec(spec),
            **omit_null(targetCPUUtilizationPercentage=next((cpu for cpu in utilizations if cpu is not None), None)),
        },
        "status": {
            **_build_common_status(status),
            "currentReplicas": status.get("currentReplicas") or 0,
            **omit_null(currentCPUUtilizationPercentage=currently[-1] if currently else None),
        },
    }


def _to_v2(autoscaler: JSONObject) -> JSONObject:
    spec, status = as_struct(autoscaler.get("spec")), as_struct(autoscaler.get("status"))
    annotations = as_struct(as_struct(autoscaler.get("metadata")).get("annotations"))
    cpu, currently = spec.get("targetCPUUtilizationPercentage"), status.get("currentCPUUtilizationPercentage")
    others = _read_annotation(
        annotations, _METRICS, METRIC_NAMES, lambda value: [to_v2_metric(one) for one in as_structs(value)]
    )
    metrics = [*(others or ()), *([] if cpu is None else [_build_cpu_metric(cpu)])] or [
        _build_cpu_metric(_DEFAULT_CPU_UTILIZATION)
    ]
    current = _read_annotation(
        annotations, _CURRENT_METRICS, METRIC_NAMES, lambda value: [to_v2_status(one) for one in as_structs(value)]
    )
    if current is None and currently is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": currently}}
        current = [{"type": "Resource", "resource": resource}]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": autoscaler["kind"],
        "metadata": _build_metadata(autoscaler, {}),
        "spec": {
            **_build_common_spec(spec),
            "metrics": metrics,
            **omit_null(behavior=_read_annotation(annotations, _BEHAVIOR, _BEHAVIOR_NAMES, _to_v2_behavior) or None),
        },
        "status": {
            **_build_common_status(status),
            **omit_empty(currentReplicas=status.get("currentReplicas") or None),
            "currentMetrics": current,
            **omit_empty(conditions=_read_annotation(annotations, _CONDITIONS, _CONDITION_NAMES, _convert_conditions)),
        },
    }


def _read_annotation(
    annotations: Mapping[str, JSON], name: str, members: Mapping[str, str], convert: Callable[[JSON], T]
) -> T | None:
    """Return the value of an annotation; as in an apiserver, an invalid one is ignored."""
    if name not in annotations:
        return None
    try:
        return convert(fold_member_names(msgspec.json.decode(as_string(annotations[name])), members))
    except (TypeError, ValueError, UnicodeError, RecursionError):
        return None


def _build_metadata(autoscaler: JSONObject, annotations: Mapping[str, str]) -> JSONObject:
    metadata = as_struct(autoscaler.get("metadata"))
    kept = {name: value for name, value in as_struct(metadata.get("annotations")).items() if name not in _ROUND_TRIP}
    others = {name: value for name, value in metadata.items() if name != "annotations"}
    return others | omit_empty(annotations={**kept, **annotations})


def _build_common_spec(spec: Mapping[str, JSON]) -> JSONObject:
    return {
        "scaleTargetRef": convert_reference(spec.get("scaleTargetRef")),
        **omit_null(minReplicas=spec.get("minReplicas")),
        "maxReplicas": spec.get("maxReplicas") or 0,
    }


def _build_common_status(status: Mapping[str, JSON]) -> JSONObject:
    return {
        **omit_null(observedGeneration=status.get("observedGeneration"), lastScaleTime=status.get("lastScaleTime")),
        "desiredReplicas": status.get("desiredReplicas") or 0,
    }


def _read_cpu(metric: Mapping[str, JSON], member: str) -> JSON:
    """Return the CPU utilization of a metric, None for other metrics."""
    resource = as_struct(metric.get("resource"))
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    return as_struct(resource.get(member)).get("averageUtilization")


def _build_cpu_metric(utilization: JSON) -> JSONObject:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _convert_conditions(value: JSON) -> list[JSONObject]:
    return [_convert_condition(one) for one in as_structs(value)]


def _convert_condition(condition: Mapping[str, JSON]) -> JSONObject:
    return {
        "type": as_string(condition.get("type")),
        "status": as_string(condition.get("status")),
        "lastTransitionTime": condition.get("lastTransitionTime"),
        **omit_empty(reason=condition.get("reason"), message=condition.get("message")),
    }


def _to_v1_behavior(behavior: Mapping[str, JSON]) -> JSONObject:
    """Return a behavior in the form of the annotation: a Go type without JSON names for its members."""
    rules = [behavior.get(name) for name in ("scaleUp", "scaleDown")]
    up, down = (None if one is None else _to_v1_rules(as_struct(one)) for one in rules)
    return {"ScaleUp": up, "ScaleDown": down}


def _to_v1_rules(rules: Mapping[str, JSON]) -> JSONObject:
    policies = rules.get("policies")
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": None if policies is None else [_to_v1_policy(one) for one in as_structs(policies)],
        "Tolerance": rules.get("tolerance"),
    }


def _to_v1_policy(policy: Mapping[str, JSON]) -> JSONObject:
    return {
        "Type": as_string(policy.get("type")),
        "Value": policy.get("value") or 0,
        "PeriodSeconds": policy.get("periodSeconds") or 0,
    }


def _to_v2_behavior(value: JSON) -> JSONObject:
    behavior = as_struct(value)
    rules = [behavior.get(name) for name in ("ScaleUp", "ScaleDown")]
    up, down = (None if one is None else _to_v2_rules(as_struct(one)) for one in rules)
    return omit_null(scaleUp=up, scaleDown=down)


def _to_v2_rules(rules: Mapping[str, JSON]) -> JSONObject:
    policies = [_to_v2_policy(one) for one in as_structs(rules.get("Policies"))]
    return {
        **omit_null(
            stabilizationWindowSeconds=rules.get("StabilizationWindowSeconds"), selectPolicy=rules.get("SelectPolicy")
        ),
        **omit_empty(policies=policies),
        **omit_null(tolerance=rules.get("Tolerance")),
    }


def _to_v2_policy(policy: Mapping[str, JSON]) -> JSONObject:
    return {
        "type": as_string(policy.get("Type")),
        "value": policy.get("Value") or 0,
        "periodSeconds": policy.get("PeriodSeconds") or 0,
    }
