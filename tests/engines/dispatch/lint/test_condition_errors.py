"""Conditions, and expressions of rules, that have errors."""

from typing import Any

import pytest

from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.lint.condition_errors import condition_errors
from tests.engines.dispatch.builders import WIDGETS, configuration, webhook


def find_operations(
    *expressions: str, operations: tuple[str, ...] = ("CREATE", "DELETE", "UPDATE"), **rest: Any
) -> list[str]:
    """Return the variables that the first condition reads, and the operations for which they are null."""
    conditions = [{"name": f"c{number}", "expression": one} for number, one in enumerate(expressions)]
    rules = [{**WIDGETS, "operations": list(operations)}]
    made = configuration("c", "validating", webhook(rules=rules, matchConditions=conditions, **rest))
    (hook,) = compile_hooks("validating", "c", made)
    texts = [issue.text for issue in condition_errors(hook) if issue.text.startswith("matchConditions c0: ")]
    return [text.partition("it reads ")[2].partition(", so")[0].replace(", which is null for ", ": ") for text in texts]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("object.spec.size > 10", ["object: DELETE"]),
        ("oldObject.spec.size > 10", ["oldObject: CREATE"]),
        ("object.spec.size != oldObject.spec.size", ["object: DELETE", "oldObject: CREATE"]),
        ("namespaceObject.metadata.name == 'a'", ["namespaceObject: CREATE and DELETE and UPDATE"]),
        ("!has(object.metadata.labels)", ["object: DELETE"]),
        ("object['spec'].size > 1", ["object: DELETE"]),
        ("object.spec.list.all(one, one > 1)", ["object: DELETE"]),
        ("request.kind.kind == 'a' && object.spec.size > 1", ["object: DELETE"]),
        ("request.operation != 'DELETE' && object.spec.size > 1", []),
        ("object == null || object.spec.size > 1", []),
        ("object != null ? object.spec.size > 1 : oldObject.spec.size > 1", []),
        ("[{'a': 1}].all(object, object.a == 1)", []),
        ("object.?spec.hasValue()", []),
        ("object[?'spec'].hasValue()", []),
        ("object", []),
        ("this is no CEL", []),
        ("(" * 200 + "object.a == 1" + ")" * 200, ["object: DELETE"]),
    ],
)
def test_a_member_of_a_null_is_an_error_unless_the_expression_handles_it(expression: str, found: list[str]) -> None:
    assert find_operations(expression) == found


def test_a_condition_about_the_operation_may_skip_the_webhook() -> None:
    assert find_operations("object.spec.size > 10", "request.operation != 'DELETE'") == []


def test_only_operations_of_the_rules_count() -> None:
    assert find_operations("object.spec.size > 10", operations=("CREATE",)) == []
    assert find_operations("oldObject.spec.size > 10", operations=("*",)) == ["oldObject: CREATE"]
    assert find_operations("oldObject.spec.size > 10", operations=("CONNECT",)) == ["oldObject: CONNECT"]


@pytest.mark.parametrize(
    ("policy", "effect"), [("Fail", "these requests are refused"), ("Ignore", "are not sent to the webhook")]
)
def test_the_effect_follows_the_failure_policy(policy: str, effect: str) -> None:
    conditions = [{"name": "a", "expression": "object.spec.size > 10"}]
    made = configuration("c", "validating", webhook(matchConditions=conditions, failurePolicy=policy))
    (hook,) = compile_hooks("validating", "c", made)
    (issue,) = condition_errors(hook)
    assert effect in issue.text
    assert "it reads object, which is null for DELETE" in issue.text


def test_the_expression_of_a_rule_is_checked_beside_its_conditions() -> None:
    rules = [{**WIDGETS, "operations": ["CREATE"]}]
    conditions = [{"name": "a", "expression": "request.name != 'a'"}]
    made = configuration("c", "validating", webhook(rules=rules, matchConditions=conditions, failurePolicy="Ignore"))
    (hook,) = compile_hooks("validating", "c", made)
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
    (hook,) = compile_hooks(phase, "c", made)
    text = "matchConditions a: it reads request.name, which the request of {} lacks, so these requests are refused "
    expected = [f"{text.format(lacking)}(failurePolicy Fail): test has(request.name) first"] if lacking else []
    assert [issue.text for issue in condition_errors(hook)] == expected
