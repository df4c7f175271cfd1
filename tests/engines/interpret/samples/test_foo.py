"""Tests of the example Foo."""

import pytest

from fleethook.engines.interpret.samples.foo import foo
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
