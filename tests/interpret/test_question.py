"""Tests of the arguments and results of interpreters, by operation."""

from typing import Any

import pytest

from fleethook.interpret.question import Answer, Question, ask
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

OBJECT, OBSERVED, ITEMS = {"a": 1}, {"b": 2}, [{"clusterName": "m1"}]
KIND = GroupVersionKind("example.org", "v1", "Foo")


@pytest.mark.parametrize(
    ("operation", "arguments", "member"),
    [
        (Operation.COMPONENT, (OBJECT,), "components"),
        (Operation.REVISE_REPLICA, (OBJECT, 3), "object"),
        (Operation.RETAIN, (OBJECT, OBSERVED), "object"),
        (Operation.AGGREGATE_STATUS, (OBJECT, ITEMS), "object"),
        (Operation.PRUNE, (OBJECT,), "object"),
        (Operation.STATUS, (OBJECT,), "status"),
        (Operation.HEALTH, (OBJECT,), "healthy"),
        (Operation.DEPENDENCY, (OBJECT,), "dependencies"),
        (Operation.REPLICA, (OBJECT,), "replicas"),
    ],
)
def test_an_operation_has_its_arguments_and_its_member_of_the_answer(
    operation: Operation, arguments: tuple[Any, ...], member: str
) -> None:
    def answer(*given: Any) -> str:
        assert given == arguments
        return "result"

    question = Question(operation, KIND, OBJECT, observed=OBSERVED, replicas=3, items=ITEMS)
    assert ask(answer, question) == Answer(**{member: "result"})


def test_a_replica_function_may_return_requirements() -> None:
    answer = ask(lambda _: (3, {"resourceRequest": {}}), Question(Operation.REPLICA, KIND, OBJECT))
    assert answer == Answer(replicas=3, requirements={"resourceRequest": {}})


def test_missing_inputs_are_empty() -> None:
    assert ask(lambda _, observed: observed, Question(Operation.RETAIN, KIND, OBJECT)).object == {}
    assert ask(lambda _, items: items, Question(Operation.AGGREGATE_STATUS, KIND, OBJECT)).object == []
