"""Types of replica requirements: one that Karmada's decoder cannot read is refused, and the error names the member."""

from typing import Any

import pytest

from app.interpret.access import InterpretError
from app.interpret.answer_validation import dependency_problems, validate_answer
from app.interpret.native.pods import requirements
from app.interpret.question import Answer, Question
from app.model.gvk import GroupVersionKind
from app.model.karmada import Operation

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
def test_a_wrong_type_is_refused_with_its_path(required: dict[str, Any], error: str) -> None:
    asked = Question(Operation.REPLICA, DEPLOYMENT, {}, None, 0, None)
    with pytest.raises(InterpretError) as caught:
        validate_answer(asked, Answer(replicas=1, requirements=required))
    assert error in str(caught.value)
    asked = asked._replace(operation=Operation.COMPONENT)
    with pytest.raises(InterpretError) as caught:
        validate_answer(asked, Answer(components=[{"name": "a", "replicaRequirements": required}]))
    assert error.replace("requirements.", "components[0].replicaRequirements.", 1) in str(caught.value)


def test_right_types_and_null_pass() -> None:
    required = {
        "nodeClaim": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists", "effect": None, "tolerationSeconds": 5}],
            "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "values": ["b"]}]}]},
        },
        "resourceRequest": {"cpu": "1", "memory": 1024},
        "namespace": None,
    }
    asked = Question(Operation.REPLICA, DEPLOYMENT, {}, None, 0, None)
    assert validate_answer(asked, Answer(replicas=1, requirements=required)).requirements == required


def pod(requests: Any, **resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"resources": {"requests": requests, **resources}}]}}


def test_a_request_of_null_is_one_for_nothing() -> None:
    assert requirements(pod({"cpu": None, "memory": "1Gi"})) == {"resourceRequest": {"memory": "1Gi"}}
    assert requirements(pod({"cpu": None}, limits={"cpu": "1"})) is None


@pytest.mark.parametrize(
    ("amount", "error"),
    [({}, "resources.requests.cpu is object, expected a quantity"),
     ([], "resources.requests.cpu is array, expected a quantity"),
     (True, "resources.requests.cpu is boolean, expected a quantity"),
     ("much", "resources.requests.cpu: ")],
)  # fmt: skip
def test_an_amount_that_is_none_is_named(amount: Any, error: str) -> None:
    requirements(pod({"cpu": 1}))
    with pytest.raises(InterpretError) as caught:
        requirements(pod({"cpu": amount}))
    assert error in str(caught.value)


def test_a_selector_is_written_with_dots() -> None:
    dependency = {"apiVersion": "v1", "kind": "Pod", "labelSelector": {"matchLabels": {"a": "-"}}}
    (problem,) = dependency_problems([dependency])
    assert problem.startswith("dependencies[0].labelSelector.matchLabels: ")
