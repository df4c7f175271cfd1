"""Converts metrics of HorizontalPodAutoscalers between ``autoscaling/v2`` and the annotations of ``autoscaling/v1``.

Members of v1 metrics are in the order of Go's structs (k8s.io/api/autoscaling/v1), because annotations are texts.
"""

from collections.abc import Callable, Mapping
from functools import partial
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
"""Members of v1 metrics, by their names in lower case."""

_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")


def to_v1_metric(metric: Mapping[str, JSON]) -> JSONObject:
    """Convert one of ``spec.metrics`` to v1."""
    return _convert_source(metric, _to_v1_object, _to_v1_pods, _to_v1_resource, _to_v1_resource, _to_v1_external)


def to_v2_metric(metric: Mapping[str, JSON]) -> JSONObject:
    """Convert a v1 metric to one of ``spec.metrics``."""
    return _convert_source(metric, _to_v2_object, _to_v2_pods, _to_v2_resource, _to_v2_container, _to_v2_external)


def to_v1_status(metric: Mapping[str, JSON]) -> JSONObject:
    """Convert one of ``status.currentMetrics`` to v1."""
    described, pods = partial(_to_v1_object, member="current"), partial(_to_v1_pods, member="current")
    resource = _to_v1_resource_status
    return _convert_source(metric, described, pods, resource, resource, _to_v1_external_status)


def to_v2_status(metric: Mapping[str, JSON]) -> JSONObject:
    """Convert a v1 metric to one of ``status.currentMetrics``."""
    resource, container = _to_v2_resource_status, _to_v2_container_status
    return _convert_source(
        metric, _to_v2_object_status, _to_v2_pods_status, resource, container, _to_v2_external_status
    )


def _convert_source(metric: Mapping[str, JSON], *conversions: Callable[[Mapping[str, JSON]], JSONObject]) -> JSONObject:
    """Convert the source of a metric; the conversions are in the order of `_SOURCES`."""
    converted = {
        name: convert_pointer(metric.get(name), convert) for name, convert in zip(_SOURCES, conversions, strict=True)
    }
    return {"type": as_string(metric.get("type")), **omit_null(**converted)}


def convert_reference(value: JSON) -> JSONObject:
    """Convert a CrossVersionObjectReference."""
    found = as_struct(value)
    return {
        "kind": as_string(found.get("kind")),
        "name": as_string(found.get("name")),
        **omit_empty(apiVersion=found.get("apiVersion")),
    }


def _read_quantity(value: JSON) -> str | None:
    """Return a quantity as Go writes it, None if it is missing; raises ValueError, TypeError if it is invalid."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError("expected a quantity")
    return stored_quantity(str(value)) if value != "" else ZERO


def _read_integer(value: JSON) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError("expected an integer")
    return value


def _order_selector(value: JSON) -> JSONObject | None:
    """Return a label selector with its members in Go's order."""
    if value is None:
        return None
    found = as_struct(value)
    labels = as_struct(found.get("matchLabels"))
    return omit_empty(
        matchLabels={name: labels[name] for name in sorted(labels)}, matchExpressions=found.get("matchExpressions")
    )


def _read_metric(source: Mapping[str, JSON]) -> tuple[str, JSONObject | None]:
    metric = as_struct(source.get("metric"))
    return as_string(metric.get("name")), _order_selector(metric.get("selector"))


def _build_identifier(source: Mapping[str, JSON], selector: str = "selector") -> JSONObject:
    return {"name": as_string(source.get("metricName")), **omit_null(selector=_order_selector(source.get(selector)))}


def _to_v1_object(source: Mapping[str, JSON], *, member: str = "target") -> JSONObject:
    """Convert an object metric; ``member`` has its values: ``target`` in a spec, ``current`` in a status."""
    values = as_struct(source.get(member))
    name, selector = _read_metric(source)
    return {
        "target": convert_reference(source.get("describedObject")),
        "metricName": name,
        f"{member}Value": _read_quantity(values.get("value")) or ZERO,
        **omit_null(selector=selector, averageValue=_read_quantity(values.get("averageValue"))),
    }


def _to_v2_object(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _read_quantity(source.get("targetValue")) or ZERO, _read_quantity(source.get("averageValue"))
    if average is None:
        target = {"type": "Value", "value": value}
    else:
        # A v1 metric cannot omit its value: zero means none.
        target = {"type": "AverageValue", **({"value": value} if value != ZERO else {}), "averageValue": average}
    return {
        "describedObject": convert_reference(source.get("target")),
        "target": target,
        "metric": _build_identifier(source),
    }


def _to_v1_pods(source: Mapping[str, JSON], *, member: str = "target") -> JSONObject:
    name, selector = _read_metric(source)
    average = _read_quantity(as_struct(source.get(member)).get("averageValue")) or ZERO
    return {"metricName": name, f"{member}AverageValue": average, **omit_null(selector=selector)}


def _to_v2_pods(source: Mapping[str, JSON]) -> JSONObject:
    average = _read_quantity(source.get("targetAverageValue")) or ZERO
    return {"metric": _build_identifier(source), "target": {"type": "AverageValue", "averageValue": average}}


def _to_v1_resource(source: Mapping[str, JSON]) -> JSONObject:
    target = as_struct(source.get("target"))
    return {
        "name": as_string(source.get("name")),
        **omit_null(
            targetAverageUtilization=_read_integer(target.get("averageUtilization")),
            targetAverageValue=_read_quantity(target.get("averageValue")),
            container=source.get("container"),
        ),
    }


def _to_v2_resource(source: Mapping[str, JSON]) -> JSONObject:
    utilization = _read_integer(source.get("targetAverageUtilization"))
    average = _read_quantity(source.get("targetAverageValue"))
    kind = "AverageValue" if utilization is None else "Utilization"
    target = {"type": kind, **omit_null(averageValue=average, averageUtilization=utilization)}
    return {"name": as_string(source.get("name")), "target": target}


def _to_v2_container(source: Mapping[str, JSON]) -> JSONObject:
    return {**_to_v2_resource(source), "container": as_string(source.get("container"))}


def _to_v1_external(source: Mapping[str, JSON]) -> JSONObject:
    target = as_struct(source.get("target"))
    name, selector = _read_metric(source)
    return {
        "metricName": name,
        **omit_null(
            metricSelector=selector,
            targetValue=_read_quantity(target.get("value")),
            targetAverageValue=_read_quantity(target.get("averageValue")),
        ),
    }


def _to_v2_external(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _read_quantity(source.get("targetValue")), _read_quantity(source.get("targetAverageValue"))
    kind = "AverageValue" if value is None else "Value"
    target = {"type": kind, **omit_null(value=value, averageValue=average)}
    return {"metric": _build_identifier(source, "metricSelector"), "target": target}


def _to_v2_object_status(source: Mapping[str, JSON]) -> JSONObject:
    value, average = _read_quantity(source.get("currentValue")) or ZERO, _read_quantity(source.get("averageValue"))
    current = {"value": value, **omit_null(averageValue=average)}
    return {
        "metric": _build_identifier(source),
        "current": current,
        "describedObject": convert_reference(source.get("target")),
    }


def _to_v2_pods_status(source: Mapping[str, JSON]) -> JSONObject:
    average = _read_quantity(source.get("currentAverageValue")) or ZERO
    return {"metric": _build_identifier(source), "current": {"averageValue": average}}


def _to_v1_resource_status(source: Mapping[str, JSON]) -> JSONObject:
    current = as_struct(source.get("current"))
    return {
        "name": as_string(source.get("name")),
        **omit_null(currentAverageUtilization=_read_integer(current.get("averageUtilization"))),
        "currentAverageValue": _read_quantity(current.get("averageValue")) or ZERO,
        **omit_null(container=source.get("container")),
    }


def _to_v2_resource_status(source: Mapping[str, JSON]) -> JSONObject:
    average = _read_quantity(source.get("currentAverageValue")) or ZERO
    utilization = _read_integer(source.get("currentAverageUtilization"))
    current = {"averageValue": average, **omit_null(averageUtilization=utilization)}
    return {"name": as_string(source.get("name")), "current": current}


def _to_v2_container_status(source: Mapping[str, JSON]) -> JSONObject:
    return {**_to_v2_resource_status(source), "container": as_string(source.get("container"))}


def _to_v1_external_status(source: Mapping[str, JSON]) -> JSONObject:
    current = as_struct(source.get("current"))
    name, selector = _read_metric(source)
    return {
        "metricName": name,
        **omit_null(metricSelector=selector),
        "currentValue": _read_quantity(current.get("value")) or ZERO,
        **omit_null(currentAverageValue=_read_quantity(current.get("averageValue"))),
    }


def _to_v2_external_status(source: Mapping[str, JSON]) -> JSONObject:
    value, average = (
        _read_quantity(source.get("currentValue")) or ZERO,
        _read_quantity(source.get("currentAverageValue")),
    )
    current = {"value": value, **omit_null(averageValue=average)}
    return {"metric": _build_identifier(source, "metricSelector"), "current": current}
