"""Decoding no more than is read gives the answers that decoding all of it gives."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.interpret import partial_decode
from app.interpret.access import InterpretError
from app.interpret.native import NATIVE
from app.model.karmada import Operation
from tests.interpret.test_fuzz import kinds, members

OPERATIONS = (Operation.HEALTH, Operation.STATUS, Operation.REPLICA)


def answered(function: Any, document: Any) -> Any:
    try:
        return function(document)
    except InterpretError as error:
        return str(error)


@given(kind=kinds, document=members, operation=st.sampled_from(OPERATIONS))
def test_any_object_is_answered_alike(kind: Any, document: Any, operation: Operation) -> None:
    function = NATIVE[kind].get(operation)
    if function is None:
        return
    text = json.dumps({**document, "apiVersion": kind.api_version, "kind": kind.kind}).encode()
    little = partial_decode.decode(msgspec.Raw(text), operation)
    if little is not None:
        assert answered(function, little) == answered(function, json.loads(text))


def test_templates_of_the_same_text_are_the_same_object_and_others_are_not() -> None:
    def template(image: str) -> Any:
        spec = {"template": {"spec": {"containers": [{"image": image, "resources": {"requests": {"cpu": "1"}}}]}}}
        document = partial_decode.decode(msgspec.Raw(json.dumps({"spec": spec}).encode()), Operation.REPLICA)
        assert document is not None
        return document["spec"]["template"]

    assert template("a") is template("a")
    assert template("a") is not template("b")


@pytest.mark.parametrize("operation", [Operation.RETAIN, Operation.PRUNE, Operation.DEPENDENCY])
def test_what_changes_or_reads_all_of_an_object_gets_all_of_it(operation: Operation) -> None:
    assert partial_decode.decode(msgspec.Raw(b"{}"), operation) is None
