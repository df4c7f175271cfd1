"""Answers that fleethook refuses; tests/conformance and test_webhook_layer.py have further cases."""

from typing import Any

import pytest

from fleethook.engines.interpret.review.answer_validation import dependency_problems, validate_answer
from fleethook.interpret.interpreter import Answer, Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


def claim(**members: Any) -> dict[str, Any]:
    return {"nodeClaim": members}


@pytest.mark.parametrize(
    ("required", "error"),
    [
        (claim(tolerations=[{"effect": {}}]), "requirements.nodeClaim.tolerations[0].effect is object, expected string"),
        (claim(tolerations=[{"tolerationSeconds": "5"}]),
         "requirements.nodeClaim.tolerations[0].tolerationSeconds is string, expected integer"),
        (claim(nodeSelector={"disk": 1}), "requirements.nodeClaim.nodeSelector.disk is integer, expected string"),
        (claim(hardNodeAffinity={"nodeSelectorTerms": [{"matchExpressions": [{"values": "a"}]}]}),
         "requirements.nodeClaim.hardNodeAffinity.nodeSelectorTerms[0].matchExpressions[0].values is string"),
        ({"resourceRequest": {"cpu": {}}}, "requirements.resourceRequest.cpu is object, expected a quantity"),
        ({"resourceRequest": {"cpu": "many"}}, "requirements.resourceRequest.cpu: "),
        ({"priorityClassName": 1}, "requirements.priorityClassName is integer, expected string"),
    ],
)  # fmt: skip
def test_wrong_type_is_refused_with_its_path(required: dict[str, Any], error: str) -> None:
    question = Question(Operation.REPLICA, DEPLOYMENT, {}, None, 0, None)
    with pytest.raises(InterpretError) as caught:
        validate_answer(question, Answer(replicas=1, requirements=required))
    assert error in str(caught.value)
    question = question._replace(operation=Operation.COMPONENT)
    with pytest.raises(InterpretError) as caught:
        validate_answer(question, Answer(components=[{"name": "a", "replicaRequirements": required}]))
    assert error.replace("requirements.", "components[0].replicaRequirements.", 1) in str(caught.value)


def test_correct_types_and_null_pass() -> None:
    required = {
        "nodeClaim": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists", "effect": None, "tolerationSeconds": 5}],
            "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "values": ["b"]}]}]},
        },
        "resourceRequest": {"cpu": "1", "memory": 1024},
        "namespace": None,
    }
    question = Question(Operation.REPLICA, DEPLOYMENT, {}, None, 0, None)
    assert validate_answer(question, Answer(replicas=1, requirements=required)).requirements == required


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
