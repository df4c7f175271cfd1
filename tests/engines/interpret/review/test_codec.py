"""Both kinds of interpreter reviews, encoded and decoded again."""

import json
from typing import Any

import pytest

from fleethook.engines.interpret.hooks.webhook_layer import build_review, read_response
from fleethook.engines.interpret.review.answer_validation import validate_answer
from fleethook.engines.interpret.review.codec import decode_review, encode_answer, read_question
from fleethook.interpret.interpreter import Answer, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import PATCHING, Operation, operation_named, proposed_name

KIND = GroupVersionKind("foo.example.com", "v1", "Foo")
FOO = {
    "apiVersion": "foo.example.com/v1",
    "kind": "Foo",
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"size": 1},
}
CHANGED = {**FOO, "spec": {"size": 2, "list": [1, None, {}]}}
ITEM = {"clusterName": "m", "status": {"a": None, "b": [], "c": 2**53 + 1}, "applied": True, "health": "Healthy"}

QUESTIONS = {
    Operation.RETAIN: Question(Operation.RETAIN, KIND, FOO, observed=CHANGED),
    Operation.REVISE_REPLICA: Question(Operation.REVISE_REPLICA, KIND, FOO, replicas=3),
    Operation.AGGREGATE_STATUS: Question(Operation.AGGREGATE_STATUS, KIND, FOO, items=[ITEM]),
}
ANSWERS: dict[Operation, dict[str, Any]] = {
    Operation.REPLICA: {"replicas": 0, "requirements": {"resourceRequest": {"cpu": "1"}}},
    Operation.COMPONENT: {"components": [{"name": "c", "replicas": 2}]},
    Operation.STATUS: {"status": {"phase": "x", "none": None, "empty": {}}},
    Operation.HEALTH: {"healthy": False},
    Operation.DEPENDENCY: {"dependencies": [{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "s"}]},
}


@pytest.mark.parametrize("proposed", [True, False], ids=["proposed", "shipped"])
@pytest.mark.parametrize("operation", Operation)
def test_question_and_answer_survive_encoding_and_decoding(operation: Operation, proposed: bool) -> None:
    question = QUESTIONS.get(operation, Question(operation, KIND, FOO))
    body = json.dumps(build_review(question, uid="u-1", proposed=proposed)).encode()
    asked = decode_review(body)
    read = read_question(asked)
    assert read == question
    answer = Answer(**({"object": CHANGED} if operation in PATCHING else ANSWERS[operation]))
    text = encode_answer(asked, read, answer, None)
    assert validate_answer(question, read_response(text, question, uid="u-1", proposed=proposed)) == answer


@pytest.mark.parametrize("operation", Operation)
def test_operation_names_are_mapped_both_ways(operation: Operation) -> None:
    assert operation_named(proposed_name(operation)) is operation
    assert operation_named(operation.value) is operation
