"""Tests of the example hooks."""

import pytest

from fleethook.engines.interpret.samples import bar, foo
from fleethook.interpret.question import Question
from fleethook.model.json import JSONObject
from fleethook.model.karmada import Operation


def test_the_size_of_the_member_cluster_is_retained() -> None:
    desired, observed = {"spec": {"size": 1, "color": "red"}}, {"spec": {"size": 3, "color": "blue"}}
    answer = foo.answer(Question(Operation.RETAIN, foo.kind, desired, observed=observed))
    assert answer.object == {"spec": {"size": 3, "color": "red"}}
    assert foo.answer(Question(Operation.RETAIN, foo.kind, desired, observed={})).object == desired


@pytest.mark.parametrize(
    ("status", "healthy"), [({"phase": "Ready"}, True), ({"phase": "Pending"}, False), ({}, False)]
)
def test_a_foo_is_healthy_in_phase_ready(status: JSONObject, *, healthy: bool) -> None:
    assert foo.answer(Question(Operation.HEALTH, foo.kind, {"status": status})).healthy is healthy


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
