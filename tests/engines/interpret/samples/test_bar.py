"""Tests of the example Bar."""

import pytest

from fleethook.engines.interpret.samples.bar import bar
from fleethook.interpret.question import Question
from fleethook.model.json import JSONObject
from fleethook.model.karmada import Operation


def test_a_bar_depends_on_the_objects_that_it_names() -> None:
    spec = {"namespace": "shop", "configMapName": "c", "secretName": "s"}
    found = bar.answer(Question(Operation.DEPENDENCY, bar.kind, {"spec": spec})).dependencies
    assert [(one["kind"], one["namespace"], one["name"]) for one in found or ()] == [
        ("ConfigMap", "shop", "c"),
        ("Secret", "shop", "s"),
    ]
    assert bar.answer(Question(Operation.DEPENDENCY, bar.kind, {})).dependencies == []


@pytest.mark.parametrize(
    ("document", "healthy"),
    [
        ({"spec": {"wanted": 2}, "status": {"ready": 2}}, True),
        ({"spec": {"wanted": 2}, "status": {"ready": 1}}, False),
        ({"status": {"ready": 1}}, True),
        ({}, False),
    ],
)
def test_a_bar_is_healthy_with_all_instances(document: JSONObject, *, healthy: bool) -> None:
    assert bar.answer(Question(Operation.HEALTH, bar.kind, document)).healthy is healthy
