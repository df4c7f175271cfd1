"""Both kinds of interpreter reviews, encoded and decoded again."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.hooks.webhook_layer import build_review, read_response
from fleethook.engines.interpret.native import NATIVE
from fleethook.engines.interpret.review.answer_validation import validate_answer
from fleethook.engines.interpret.review.codec import decode_partially, decode_review, encode_answer, read_question
from fleethook.interpret.interpreter import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import PATCHING, Operation, operation_named, proposed_name
from tests.engines.interpret.test_fuzz import members, natives

OPERATIONS = (Operation.HEALTH, Operation.STATUS, Operation.REPLICA)


def answer_or_explain(function: Any, document: Any) -> Any:
    try:
        return function(document)
    except InterpretError as error:
        return str(error)


@given(kind=natives, document=members, operation=st.sampled_from(OPERATIONS))
def test_partial_decoding_gives_the_same_answer(kind: Any, document: Any, operation: Operation) -> None:
    function = NATIVE[kind].get(operation)
    if function is None:
        return
    text = json.dumps({**document, "apiVersion": kind.api_version, "kind": kind.kind}).encode()
    partial = decode_partially(msgspec.Raw(text), operation)
    if partial is not None:
        assert answer_or_explain(function, partial) == answer_or_explain(function, json.loads(text))


def test_templates_with_the_same_text_are_decoded_once() -> None:
    def template(image: str) -> Any:
        spec = {"template": {"spec": {"containers": [{"image": image, "resources": {"requests": {"cpu": "1"}}}]}}}
        document = decode_partially(msgspec.Raw(json.dumps({"spec": spec}).encode()), Operation.REPLICA)
        assert document is not None
        return document["spec"]["template"]

    assert template("a") is template("a")
    assert template("a") is not template("b")


@pytest.mark.parametrize("operation", [Operation.RETAIN, Operation.PRUNE, Operation.DEPENDENCY])
def test_other_operations_get_the_complete_object(operation: Operation) -> None:
    assert decode_partially(msgspec.Raw(b"{}"), operation) is None


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
    read = read_question(asked, built_in=lambda *_: False)
    assert read == question
    answer = Answer(**({"object": CHANGED} if operation in PATCHING else ANSWERS[operation]))
    text = encode_answer(asked, read, answer, None)
    assert validate_answer(question, read_response(text, question, uid="u-1", proposed=proposed)) == answer


@pytest.mark.parametrize("operation", Operation)
def test_operation_names_are_mapped_both_ways(operation: Operation) -> None:
    assert operation_named(proposed_name(operation)) is operation
    assert operation_named(operation.value) is operation
