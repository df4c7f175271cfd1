"""Answers that fleethook refuses; tests/conformance and test_webhook_layer.py have further cases."""

import pytest

from fleethook.engines.interpret.review.answer_validation import dependency_problems, validate_answer
from fleethook.interpret.question import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation


def test_path_of_a_label_selector_has_dots() -> None:
    dependency = {"apiVersion": "v1", "kind": "Pod", "labelSelector": {"matchLabels": {"a": "-"}}}
    (problem,) = dependency_problems([dependency])
    assert problem.startswith("dependencies[0].labelSelector.matchLabels: ")


@pytest.mark.parametrize("metadata", ["x", [], 1])
def test_metadata_of_the_object_may_have_any_type(metadata: object) -> None:
    """Only the answer must have an object there."""
    question = Question(Operation.RETAIN, GroupVersionKind("", "v1", "Pod"), {"metadata": metadata}, {})
    assert validate_answer(question, Answer(object={"metadata": {"labels": {}}})).object is not None
    with pytest.raises(InterpretError, match="metadata of the answer is not an object"):
        validate_answer(question, Answer(object={"metadata": metadata}))
