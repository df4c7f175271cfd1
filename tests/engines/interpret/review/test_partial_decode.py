"""Partial decoding gives the same answers as decoding the complete object."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.native import NATIVE
from fleethook.engines.interpret.review import partial_decode
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.karmada import Operation
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
    partial = partial_decode.decode(msgspec.Raw(text), operation)
    if partial is not None:
        assert answer_or_explain(function, partial) == answer_or_explain(function, json.loads(text))


def test_templates_with_the_same_text_are_decoded_once() -> None:
    def template(image: str) -> Any:
        spec = {"template": {"spec": {"containers": [{"image": image, "resources": {"requests": {"cpu": "1"}}}]}}}
        document = partial_decode.decode(msgspec.Raw(json.dumps({"spec": spec}).encode()), Operation.REPLICA)
        assert document is not None
        return document["spec"]["template"]

    assert template("a") is template("a")
    assert template("a") is not template("b")


@pytest.mark.parametrize("operation", [Operation.RETAIN, Operation.PRUNE, Operation.DEPENDENCY])
def test_other_operations_get_the_complete_object(operation: Operation) -> None:
    assert partial_decode.decode(msgspec.Raw(b"{}"), operation) is None
