"""A webhook that excludes its own objects is not locked out."""

from typing import Any

import pytest

from fleethook.engines.dispatch.lint.lockout_certificate_condition_checks import condition_errors
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from tests.engines.dispatch.builders import WIDGETS, configuration, webhook
from tests.engines.dispatch.lint.builders import list_codes, own, validating


def test_object_selectors_and_conditions_count_as_exclusions() -> None:
    labelled = own(objectSelector={"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]})
    conditional = own(
        matchConditions=[{"name": "a", "expression": "object == null || object.metadata.labels.hook != 'no'"}]
    )
    assert list_codes(validating(labelled, cluster="")) == list_codes(validating(conditional, cluster="")) == []


def find_operations(
    *expressions: str, operations: tuple[str, ...] = ("CREATE", "DELETE", "UPDATE"), **rest: Any
) -> str:
    """Return the operations of the finding about the first condition."""
    conditions = [{"name": f"c{number}", "expression": one} for number, one in enumerate(expressions)]
    rules = [{**WIDGETS, "operations": list(operations)}]
    made = configuration("c", "validating", webhook(rules=rules, matchConditions=conditions, **rest))
    (hook,) = compile_webhooks("validating", "c", made)
    texts = [issue.text for issue in condition_errors(hook) if issue.text.startswith("matchConditions c0: ")]
    return texts[0].partition("null for ")[2].partition(", so")[0] if texts else ""


@pytest.mark.parametrize(
    ("expression", "operations"),
    [
        ("object.spec.size > 10", "DELETE"),
        ("oldObject.spec.size > 10", "CREATE"),
        ("object.spec.size != oldObject.spec.size", "CREATE and DELETE"),
        ("namespaceObject.metadata.name == 'a'", "CREATE and DELETE and UPDATE"),
        ("has(object.spec)", "DELETE"),
        ("!has(object.metadata.labels)", "DELETE"),
        ("object['spec'].size > 1", "DELETE"),
        ("object.spec.list.all(one, one > 1)", "DELETE"),
        ("'a' in object.metadata.labels && object.spec.size > 1", "DELETE"),
        ("request.operation == 'DELETE' ? object.spec.size > 1 : true", "DELETE"),
        ("request.operation != 'DELETE' && object.spec.size > 1", ""),
        ("request.operation in ['CREATE', 'UPDATE'] && object.spec.size > 1", ""),
        ("request.operation == 'DELETE' || object.spec.size > 1", ""),
        ("object == null || object.spec.size > 1", ""),
        ("object != null && object.spec.size > 1", ""),
        ("object != null ? object.spec.size > 1 : oldObject.spec.size > 1", ""),
        ("request.name == 'a' && object.spec.size > 1", "DELETE"),
        ("object.?spec.hasValue()", ""),
        ("request.name.startsWith('a')", ""),
        ("object", ""),
        ("this is no CEL", ""),
    ],
)
def test_nulls_are_followed_through_the_expression(expression: str, operations: str) -> None:
    assert find_operations(expression) == operations


def test_another_condition_that_is_false_skips_the_webhook() -> None:
    assert find_operations("object.spec.size > 10", "request.operation != 'DELETE'") == ""
    assert find_operations("object.spec.size > 10", "request.operation != 'UPDATE'") == "DELETE"


def test_only_operations_of_the_rules_count() -> None:
    assert find_operations("object.spec.size > 10", operations=("CREATE",)) == ""
    assert find_operations("oldObject.spec.size > 10", operations=("*",)) == "CREATE"
    assert find_operations("oldObject.spec.size > 10", operations=("CONNECT",)) == "CONNECT"


@pytest.mark.parametrize(
    ("policy", "effect"), [("Fail", "these requests are refused"), ("Ignore", "are not sent to the webhook")]
)
def test_the_effect_follows_the_failure_policy(policy: str, effect: str) -> None:
    conditions = [{"name": "a", "expression": "object.spec.size > 10"}]
    made = configuration("c", "validating", webhook(matchConditions=conditions, failurePolicy=policy))
    (hook,) = compile_webhooks("validating", "c", made)
    (issue,) = condition_errors(hook)
    assert effect in issue.text
    assert "it reads object, which is null for DELETE" in issue.text


def test_the_expression_of_a_rule_is_checked_beside_its_conditions() -> None:
    rules = [{**WIDGETS, "operations": ["CREATE", "DELETE"]}]
    conditions = [{"name": "a", "expression": "request.operation == 'CREATE'"}]
    made = configuration("c", "validating", webhook(rules=rules, matchConditions=conditions, failurePolicy="Ignore"))
    (hook,) = compile_webhooks("validating", "c", made)
    assert list(condition_errors(hook, "object.spec.size > 1 && namespaceObject.metadata.name != 'a'")) == []
    (issue,) = condition_errors(hook, "oldObject.spec.size > 1")
    assert issue.text == (
        "expression: it reads oldObject, which is null for CREATE, so these requests are admitted without the rule "
        "(failurePolicy Ignore): compare with null first, or remove the operation"
    )


@pytest.mark.parametrize(
    ("phase", "operations", "expression", "lacking"),
    [
        ("validating", ["DELETE"], "request.name != 'a'", "a deleted collection, so also of a deleted namespace,"),
        ("mutating", ["CREATE"], "request.name.startsWith('a')", "an object with generateName, as Pods have,"),
        ("validating", ["CREATE"], "request.name != 'a'", ""),
        ("mutating", ["UPDATE"], "request.name != 'a'", ""),
        ("validating", ["*"], "has(request.name) && request.name != 'a'", ""),
        ("validating", ["*"], "request.operation != 'DELETE' && request.name != 'a'", ""),
        ("validating", ["*"], "request.?name.orValue('') != 'a'", ""),
    ],
)
def test_a_request_without_a_name_is_considered(
    phase: Any, operations: list[str], expression: str, lacking: str
) -> None:
    conditions = [{"name": "a", "expression": expression}]
    made = configuration("c", phase, webhook(rules=[{**WIDGETS, "operations": operations}], matchConditions=conditions))
    (hook,) = compile_webhooks(phase, "c", made)
    text = "matchConditions a: it reads request.name, which the request of {} lacks, so these requests are refused "
    expected = [f"{text.format(lacking)}(failurePolicy Fail): test has(request.name) first"] if lacking else []
    assert [issue.text for issue in condition_errors(hook)] == expected
