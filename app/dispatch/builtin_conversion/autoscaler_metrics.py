"""Metrics of HorizontalPodAutoscalers: ``autoscaling/v2``, and the form of ``autoscaling/v1`` that annotations hold.

Members of the older form stand in the order of Go's structs (k8s.io/api/autoscaling/v1), since annotations are texts.
"""

from collections.abc import Callable, Mapping
from typing import Final

from app.dispatch.builtin_conversion.go_json import ZERO, as_string, as_struct, convert_pointer, omit_empty, omit_null
from app.model.json import JSON, JSONObject
from app.model.quantity_text import stored_quantity

METRIC_NAMES: Final = {
    name.lower(): name
    for name in (
        "type", "object", "pods", "resource", "containerResource", "external", "target", "kind", "name", "apiVersion",
        "metricName", "metricSelector", "selector", "matchLabels", "matchExpressions", "key", "operator", "values",
        "container", "targetValue", "averageValue", "targetAverageValue", "targetAverageUtilization", "currentValue",
        "currentAverageValue", "currentAverageUtilization",
    )
}  # fmt: skip
"""Members of the older form, by their names in small letters."""

_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")


def to_v1_metric(metric: Mapping[str, JSON]) -> JSONObject:
    """Return one of ``spec.metrics`` in the form of v1."""
    return _by_source(metric, _old_object, _old_pods, _old_resource, _old_resource, _old_external)


def to_v2_metric(metric: Mapping[str, JSON]) -> JSONObject:
    """Return a metric of the form of v1 as one of ``spec.metrics``."""
    return _by_source(metric, _new_object, _new_pods, _new_resource, _new_container, _new_external)


def to_v1_status(metric: Mapping[str, JSON]) -> JSONObject:
    """Return one of ``status.currentMetrics`` in the form of v1."""
    resource = _old_resource_status
    return _by_source(metric, _old_object_status, _old_pods_status, resource, resource, _old_external_status)


def to_v2_status(metric: Mapping[str, JSON]) -> JSONObject:
    """Return a metric of the form of v1 as one of ``status.currentMetrics``."""
    resource, container = _new_resource_status, _new_container_status
    return _by_source(metric, _new_object_status, _new_pods_status, resource, container, _new_external_status)


def _by_source(metric: Mapping[str, JSON], *conversions: Callable[[Mapping[str, JSON]], JSONObject]) -> JSONObject:
    """Return a metric whose sources, in the order of `_SOURCES`, are converted."""
    converted = {
        name: convert_pointer(metric.get(name), convert) for name, convert in zip(_SOURCES, conversions, strict=True)
    }
    return {"type": as_string(metric.get("type")), **omit_null(**converted)}


def convert_reference(value: JSON) -> JSONObject:
    """Return a CrossVersionObjectReference."""
    found = as_struct(value)
    return {
        "kind": as_string(found.get("kind")),
        "name": as_string(found.get("name")),
        **omit_empty(apiVersion=found.get("apiVersion")),
    }


def _quantity(value: JSON) -> str | None:
    """Return a quantity as Go writes it, None if it is not set; raises ValueError, TypeError if it is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError("a quantity is expected")
    return stored_quantity(str(value)) if value != "" else ZERO


def _whole(value: JSON) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError("an integer is expected")
    return value


def _selector(value: JSON) -> JSONObject | None:
    """Return a label selector with its members in order."""
    if value is None:
        return None
    found = as_struct(value)
    labels = as_struct(found.get("matchLabels"))
    return omit_empty(
        matchLabels={name: labels[name] for name in sorted(labels)}, matchExpressions=found.get("matchExpressions")
    )


def _metric(source: Mapping[str, JSON]) -> tuple[str, JSONObject | None]:
    metric = as_struct(source.get("metric"))
    return as_string(metric.get("name")), _selector(metric.get("selector"))


def _identifier(source: Mapping[str, JSON], selector: str = "selector") -> JSONObject:
    return {"name": as_string(source.get("metricName")), **omit_null(selector=_selector(source.get(selector)))}


def _old_object(source: Mapping[str, JSON]) -> JSONObject:
    target = as_struct(source.get("target"))
    name, selector = _metric(source)
    return {
        "target": convert_reference(source.get("describedObject")),
        "metricName": name,
        "targetValue": _quantity(target.get("value")) or ZERO,
        **omit_null(selector=selector, averageValue=_quantity(target.get("averageValue"))),
    }


def _new_object(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _quantity(source.get("targetValue")) or ZERO, _quantity(source.get("averageValue"))
    if average is None:
        target = {"type": "Value", "value": value}
    else:
        # The older form cannot leave out its value: zero stands for none.
        target = {"type": "AverageValue", **({"value": value} if value != ZERO else {}), "averageValue": average}
    return {"describedObject": convert_reference(source.get("target")), "target": target, "metric": _identifier(source)}


def _old_pods(source: Mapping[str, JSON]) -> JSONObject:
    name, selector = _metric(source)
    average = _quantity(as_struct(source.get("target")).get("averageValue")) or ZERO
    return {"metricName": name, "targetAverageValue": average, **omit_null(selector=selector)}


def _new_pods(source: Mapping[str, JSON]) -> JSONObject:
    average = _quantity(source.get("targetAverageValue")) or ZERO
    return {"metric": _identifier(source), "target": {"type": "AverageValue", "averageValue": average}}


def _old_resource(source: Mapping[str, JSON]) -> JSONObject:
    target = as_struct(source.get("target"))
    return {
        "name": as_string(source.get("name")),
        **omit_null(
            targetAverageUtilization=_whole(target.get("averageUtilization")),
            targetAverageValue=_quantity(target.get("averageValue")),
            container=source.get("container"),
        ),
    }


def _new_resource(source: Mapping[str, JSON]) -> JSONObject:
    utilization = _whole(source.get("targetAverageUtilization"))
    average = _quantity(source.get("targetAverageValue"))
    kind = "AverageValue" if utilization is None else "Utilization"
    target = {"type": kind, **omit_null(averageValue=average, averageUtilization=utilization)}
    return {"name": as_string(source.get("name")), "target": target}


def _new_container(source: Mapping[str, JSON]) -> JSONObject:
    return {**_new_resource(source), "container": as_string(source.get("container"))}


def _old_external(source: Mapping[str, JSON]) -> JSONObject:
    target = as_struct(source.get("target"))
    name, selector = _metric(source)
    return {
        "metricName": name,
        **omit_null(
            metricSelector=selector,
            targetValue=_quantity(target.get("value")),
            targetAverageValue=_quantity(target.get("averageValue")),
        ),
    }


def _new_external(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _quantity(source.get("targetValue")), _quantity(source.get("targetAverageValue"))
    kind = "AverageValue" if value is None else "Value"
    target = {"type": kind, **omit_null(value=value, averageValue=average)}
    return {"metric": _identifier(source, "metricSelector"), "target": target}


def _old_object_status(source: Mapping[str, JSON]) -> JSONObject:
    current = as_struct(source.get("current"))
    name, selector = _metric(source)
    return {
        "target": convert_reference(source.get("describedObject")),
        "metricName": name,
        "currentValue": _quantity(current.get("value")) or ZERO,
        **omit_null(selector=selector, averageValue=_quantity(current.get("averageValue"))),
    }


def _new_object_status(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _quantity(source.get("currentValue")) or ZERO, _quantity(source.get("averageValue"))
    current = {"value": value, **omit_null(averageValue=average)}
    return {
        "metric": _identifier(source),
        "current": current,
        "describedObject": convert_reference(source.get("target")),
    }


def _old_pods_status(source: Mapping[str, JSON]) -> JSONObject:
    name, selector = _metric(source)
    average = _quantity(as_struct(source.get("current")).get("averageValue")) or ZERO
    return {"metricName": name, "currentAverageValue": average, **omit_null(selector=selector)}


def _new_pods_status(source: Mapping[str, JSON]) -> JSONObject:
    average = _quantity(source.get("currentAverageValue")) or ZERO
    return {"metric": _identifier(source), "current": {"averageValue": average}}


def _old_resource_status(source: Mapping[str, JSON]) -> JSONObject:
    current = as_struct(source.get("current"))
    return {
        "name": as_string(source.get("name")),
        **omit_null(currentAverageUtilization=_whole(current.get("averageUtilization"))),
        "currentAverageValue": _quantity(current.get("averageValue")) or ZERO,
        **omit_null(container=source.get("container")),
    }


def _new_resource_status(source: Mapping[str, JSON]) -> JSONObject:
    average = _quantity(source.get("currentAverageValue")) or ZERO
    utilization = _whole(source.get("currentAverageUtilization"))
    current = {"averageValue": average, **omit_null(averageUtilization=utilization)}
    return {"name": as_string(source.get("name")), "current": current}


def _new_container_status(source: Mapping[str, JSON]) -> JSONObject:
    return {**_new_resource_status(source), "container": as_string(source.get("container"))}


def _old_external_status(source: Mapping[str, JSON]) -> JSONObject:
    current = as_struct(source.get("current"))
    name, selector = _metric(source)
    return {
        "metricName": name,
        **omit_null(metricSelector=selector),
        "currentValue": _quantity(current.get("value")) or ZERO,
        **omit_null(currentAverageValue=_quantity(current.get("averageValue"))),
    }


def _new_external_status(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _quantity(source.get("currentValue")) or ZERO, _quantity(source.get("currentAverageValue"))
    current = {"value": value, **omit_null(averageValue=average)}
    return {"metric": _identifier(source, "metricSelector"), "current": current}
