from collections.abc import Mapping
from typing import Any, cast

from fleethook.admission import validate
from fleethook.admission.policy import compile_policy
from fleethook.admission.rule import Rule


def compile_rule(api_version: str, kind: str, **options: Any) -> list[Mapping[str, Any]]:
    def few() -> None: ...

    return [*compile_policy(cast("Rule", validate(api_version, kind, **options)(few)))]


EXPRESSION = {"expression": "object.spec.replicas <= 5", "message": "at most 5 replicas"}


def test_a_policy_has_the_expression_the_message_and_the_code_of_the_webhook() -> None:
    policy, binding = compile_rule("apps/v1", "Deployment", **EXPRESSION)
    assert policy["metadata"]["name"] == "few.hooks.fleethook.io"
    assert policy["spec"]["validations"] == [EXPRESSION | {"reason": "Forbidden"}]
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": "few.hooks.fleethook.io", "validationActions": ["Deny"]}


def test_a_policy_selects_the_requests_of_the_webhook() -> None:
    labels, conditions = {"matchLabels": {"a": "b"}}, {"big": "object.metadata.name == 'big'"}
    policy, _ = compile_rule(
        "apps/v1", "Deployment", on="CREATE", subresource="scale", scope="Namespaced", namespace_selector=labels,
        object_selector=labels, match_conditions=conditions, failure_policy="Ignore", **EXPRESSION,
    )  # fmt: skip
    assert policy["spec"]["matchConstraints"] == {
        "resourceRules": [
            {
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["deployments/scale"], "scope": "Namespaced",
            }
        ],
        "namespaceSelector": labels,
        "objectSelector": labels,
    }  # fmt: skip
    assert {"name": "big", "expression": conditions["big"]} in policy["spec"]["matchConditions"]
    assert policy["spec"]["failurePolicy"] == "Ignore"


def test_a_rule_in_python_has_no_policy() -> None:
    assert compile_rule("v1", "Pod") == []


def test_reviews_of_access_have_no_policy() -> None:
    assert compile_rule("authorization.k8s.io/v1", "SubjectAccessReview", **EXPRESSION) == []
    assert compile_rule("example.com/v1", "SubjectAccessReview", **EXPRESSION) != []


def test_a_message_has_no_space_around_it_as_on_the_apiserver() -> None:
    policy, _ = compile_rule("apps/v1", "Deployment", **EXPRESSION | {"message": " at most 5 replicas\n"})
    assert policy["spec"]["validations"] == [EXPRESSION | {"reason": "Forbidden"}]
