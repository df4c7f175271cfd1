"""Metrics of HorizontalPodAutoscalers in v2 and in the annotations of v1."""

import json
from typing import Any

import pytest

from app.dispatch.builtin_conversion.autoscaler_metrics import (
    convert_reference,
    to_v1_metric,
    to_v1_status,
    to_v2_metric,
    to_v2_status,
)

SELECTOR = {"matchLabels": {"a": "1", "b": "2"}}
METRIC = {"name": "m", "selector": SELECTOR}
V1_NAME = {"metricName": "m", "selector": SELECTOR}
REFERENCE = {"kind": "Service", "name": "s", "apiVersion": "v1"}

# v2, and the same metric in v1.
METRICS: list[tuple[Any, Any]] = [
    (
        {"type": "Object", "object": {
            "describedObject": REFERENCE, "target": {"type": "Value", "value": "5"}, "metric": METRIC}},
        {"type": "Object", "object": {"target": REFERENCE, "metricName": "m", "targetValue": "5", "selector": SELECTOR}},
    ),
    (
        {"type": "Object", "object": {
            "describedObject": REFERENCE, "target": {"type": "AverageValue", "averageValue": "5"}, "metric": METRIC}},
        {"type": "Object", "object": {
            "target": REFERENCE, "metricName": "m", "targetValue": "0", "selector": SELECTOR, "averageValue": "5"}},
    ),
    (
        {"type": "Pods", "pods": {"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "1k"}}},
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "1k", "selector": SELECTOR}},
    ),
    (
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}},
    ),
    (
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}, "container": "app"}},
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "targetAverageValue": "100m", "container": "app"}},
    ),
    (
        {"type": "External", "external": {
            "metric": METRIC, "target": {"type": "Value", "value": "1", "averageValue": "2"}}},
        {"type": "External", "external": {
            "metricName": "m", "metricSelector": SELECTOR, "targetValue": "1", "targetAverageValue": "2"}},
    ),
]  # fmt: skip
STATUSES: list[tuple[Any, Any]] = [
    (
        {"type": "Object", "object": {
            "metric": METRIC, "current": {"value": "5", "averageValue": "1"}, "describedObject": REFERENCE}},
        {"type": "Object", "object": {
            "target": REFERENCE, "metricName": "m", "currentValue": "5", "selector": SELECTOR, "averageValue": "1"}},
    ),
    (
        {"type": "Pods", "pods": {"metric": METRIC, "current": {"averageValue": "1"}}},
        {"type": "Pods", "pods": {"metricName": "m", "currentAverageValue": "1", "selector": SELECTOR}},
    ),
    (
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "1", "averageUtilization": 7}}},
        {"type": "Resource", "resource": {
            "name": "cpu", "currentAverageUtilization": 7, "currentAverageValue": "1"}},
    ),
    (
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "current": {"averageValue": "1"}, "container": "app"}},
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "currentAverageValue": "1", "container": "app"}},
    ),
    (
        {"type": "External", "external": {"metric": METRIC, "current": {"value": "1", "averageValue": "2"}}},
        {"type": "External", "external": {
            "metricName": "m", "metricSelector": SELECTOR, "currentValue": "1", "currentAverageValue": "2"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("v2", "v1"), METRICS)
def test_a_metric_converts_in_the_order_of_gos_members_and_back(v2: Any, v1: Any) -> None:
    assert json.dumps(to_v1_metric(v2)) == json.dumps(v1)
    assert to_v2_metric(v1) == v2


@pytest.mark.parametrize(("v2", "v1"), STATUSES)
def test_a_status_converts_in_the_order_of_gos_members_and_back(v2: Any, v1: Any) -> None:
    assert json.dumps(to_v1_status(v2)) == json.dumps(v1)
    assert to_v2_status(v1) == v2


def test_a_value_beside_an_average_is_kept_unless_it_is_zero() -> None:
    source = {"target": REFERENCE, "metricName": "m", "targetValue": "3", "averageValue": "5"}
    (target,) = (to_v2_metric({"object": source})["object"]["target"],)
    assert target == {"type": "AverageValue", "value": "3", "averageValue": "5"}


def test_an_external_metric_without_a_value_has_an_average() -> None:
    target = to_v2_metric({"external": {"metricName": "m", "targetAverageValue": "2"}})["external"]["target"]
    assert target == {"type": "AverageValue", "averageValue": "2"}


def test_labels_of_a_selector_are_sorted_and_empty_members_omitted() -> None:
    selector = {"matchExpressions": [], "matchLabels": {"b": "2", "a": "1"}}
    found = to_v1_metric({"type": "Pods", "pods": {"metric": {"name": "m", "selector": selector}}})["pods"]["selector"]
    assert json.dumps(found) == '{"matchLabels": {"a": "1", "b": "2"}}'


@pytest.mark.parametrize(("value", "text"), [("0.1", "100m"), (2, "2"), ("1000m", "1"), ("", "0"), (None, "0")])
def test_quantities_are_written_as_go_writes_them(value: Any, text: str) -> None:
    target = {"averageValue": value}
    assert to_v1_metric({"pods": {"target": target}})["pods"]["targetAverageValue"] == text


@pytest.mark.parametrize(
    "metric",
    [
        {"pods": {"target": {"averageValue": True}}},
        {"pods": {"target": {"averageValue": []}}},
        {"pods": {"target": {"averageValue": "many"}}},
        {"resource": {"name": "cpu", "target": {"averageUtilization": "60"}}},
        {"resource": {"name": "cpu", "target": {"averageUtilization": True}}},
        {"resource": "cpu"},
        {"type": 7},
    ],
)
def test_values_of_a_wrong_type_are_errors(metric: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        to_v1_metric(metric)


def test_a_metric_without_members_has_an_empty_type() -> None:
    assert to_v1_metric({}) == to_v2_metric({}) == to_v1_status({}) == to_v2_status({}) == {"type": ""}


def test_a_reference_has_a_version_only_if_it_is_set() -> None:
    assert convert_reference({"kind": "Deployment", "apiVersion": ""}) == {"kind": "Deployment", "name": ""}
    assert convert_reference(None) == {"kind": "", "name": ""}
