"""Answers that fleethook refuses; tests/conformance and test_webhook_layer.py have further cases."""

from typing import Any

import pytest

from fleethook.engines.interpret.review.answer_validation import (
    dependency_problems,
    list_unknown_members,
    validate_answer,
)
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NO_NAMESPACE = (
    "components[0].replicaRequirements has no member namespace; its members are nodeClaim, resourceRequest, "
    "priorityClassName"
)


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


@pytest.mark.parametrize(
    ("operation", "answer", "found"),
    [
        ("InterpretReplica", {"requirements": {"resourceRequest": {"cpu": "1"}, "namespace": "a"}}, []),
        ("InterpretReplica", {"requirements": {"requests": {}, "limits": {}}},
         ["requirements has no member requests; did you mean resourceRequest?",
          "requirements has no member limits; its members are nodeClaim, resourceRequest, priorityClassName, namespace"]),
        ("InterpretReplica", {"requirements": claim(tolerations=[{"key": "a"}, {"keys": "a"}], nodeSelector={"a": "b"})},
         ["requirements.nodeClaim.tolerations[1] has no member keys; did you mean key?"]),
        ("InterpretComponent", {"components": [{"name": "a", "replica": 2, "resourceRequest": {}}]},
         ["components[0] has no member replica; did you mean replicas?",
          "components[0] has no member resourceRequest; it is a member of replicaRequirements"]),
        ("InterpretComponent", {"components": [{"name": "a", "replicaRequirements": {"namespace": "a"}}]},
         [NO_NAMESPACE]),
        ("InterpretDependency", {"dependencies": [{"kind": "A", "labelSelector": {"matchLabel": {"any": "a"}}}]},
         ["dependencies[0].labelSelector has no member matchLabel; did you mean matchLabels?"]),
        ("InterpretStatus", {"status": {"replica": 1}}, []),
        ("Retain", {"object": {"spec": {"replica": 1}}}, []),
    ],
)  # fmt: skip
def test_members_that_karmada_drops_are_named(operation: str, answer: dict[str, Any], found: list[str]) -> None:
    assert list(list_unknown_members(Operation(operation), Answer(**answer))) == found


@pytest.mark.parametrize(
    ("dependency", "error"),
    [
        ({"name": True}, "dependencies[0].name is boolean, expected string"),
        ({"name": "a", "namespace": 1}, "dependencies[0].namespace is integer, expected string"),
        ({"names": "a"}, "dependencies[0] has no member names; did you mean name?"),
    ],
)
def test_a_wrong_dependency_is_refused(dependency: dict[str, Any], error: str) -> None:
    question = Question(Operation.DEPENDENCY, DEPLOYMENT, {})
    with pytest.raises(InterpretError) as caught:
        validate_answer(question, Answer(dependencies=[{"apiVersion": "v1", "kind": "Secret", **dependency}]))
    assert error in str(caught.value)


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


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"kind": "Bar"}, "kind was changed"),
        ({"apiVersion": "v2"}, "apiVersion was changed"),
        ({"metadata": {"name": "b", "namespace": "n"}}, "metadata.name was changed"),
        ({"metadata": {"name": "a", "namespace": "m"}}, "metadata.namespace was changed"),
    ],
)
def test_an_answer_keeps_the_identity_of_the_object(changed: dict[str, Any], error: str) -> None:
    document = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a", "namespace": "n"}}
    with pytest.raises(InterpretError, match=error):
        validate_answer(Question(Operation.PRUNE, DEPLOYMENT, document), Answer(object={**document, **changed}))
