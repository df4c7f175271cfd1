"""Selectors and conditions that no request matches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.lint.filters import error_findings, find_contradictions
from fleethook.model.formats.labels import compile_selector
from tests.engines.dispatch.builders import WIDGETS, configuration, webhook
from tests.engines.dispatch.lint.builders import NODES, WIDGET, list_codes, selecting, validating


def find_operations(
    *expressions: str, operations: tuple[str, ...] = ("CREATE", "DELETE", "UPDATE"), **rest: Any
) -> str:
    """Return the operations of the finding about the first condition."""
    conditions = [{"name": f"c{number}", "expression": one} for number, one in enumerate(expressions)]
    rules = [{**WIDGETS, "operations": list(operations)}]
    made = configuration("c", "validating", webhook(rules=rules, matchConditions=conditions, **rest))
    (hook,) = compile_hooks("validating", "c", made)
    texts = [issue.text for issue in error_findings(hook) if issue.text.startswith("matchConditions c0: ")]
    return texts[0].partition(" an error for ")[2].partition(", because")[0] if texts else ""


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
        ("request.name == 'a' && object.spec.size > 1", ""),
        ("object.?spec.hasValue()", ""),
        ("request.name.startsWith('a')", ""),
        ("object", ""),
        ("this is no CEL", ""),
    ],
)
def test_nulls_are_followed_through_the_expression(expression: str, operations: str) -> None:
    assert find_operations(expression) == operations


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a"]}]}, []),
        (
            {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a"]}]},
            ["suspicious"],
        ),
        ({"matchLabels": {"a": "b"}}, ["suspicious"]),
    ],
)
def test_a_selector_of_nodes_that_exempts_namespaces_is_no_finding(selector: Any, codes: list[str]) -> None:
    assert list_codes(validating(webhook(rules=[NODES], namespaceSelector=selector))) == codes


def test_another_condition_that_is_false_skips_the_webhook() -> None:
    assert find_operations("object.spec.size > 10", "request.operation != 'DELETE'") == ""
    assert find_operations("object.spec.size > 10", "request.operation != 'UPDATE'") == "DELETE"


def test_only_operations_of_the_rules_count() -> None:
    assert find_operations("object.spec.size > 10", operations=("CREATE",)) == ""
    assert find_operations("oldObject.spec.size > 10", operations=("*",)) == "CREATE"
    assert find_operations("oldObject.spec.size > 10", operations=("CONNECT",)) == "CONNECT"


@pytest.mark.parametrize(("policy", "effect"), [("Fail", "these requests are refused"), ("Ignore", "is not called")])
def test_the_effect_follows_the_failure_policy(policy: str, effect: str) -> None:
    conditions = [{"name": "a", "expression": "object.spec.size > 10"}]
    made = configuration("c", "validating", webhook(matchConditions=conditions, failurePolicy=policy))
    (hook,) = compile_hooks("validating", "c", made)
    (issue,) = error_findings(hook)
    assert effect in issue.text
    assert "because object is null there" in issue.text


def test_invalid_selectors_are_reported_once() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    assert list_codes(WIDGET, validating(selecting(**selector))) == ["invalid"]


_KEYS, _VALUES = st.sampled_from("ab"), st.sampled_from("xyz")


_REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({"key": _KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {"key": _KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(_VALUES, min_size=1)}
    ),
)


_SELECTORS = st.fixed_dictionaries(
    {"matchLabels": st.dictionaries(_KEYS, _VALUES), "matchExpressions": st.lists(_REQUIREMENTS, max_size=5)}
)


@given(_SELECTORS)
def test_contradictions_are_exactly_the_selectors_that_match_no_labels(selector: dict[str, Any]) -> None:
    selects = compile_selector(selector)
    # "other" stands for each value that the selector does not name, None for a missing label.
    each = [None, "x", "y", "z", "other"]
    labels = [{key: value for key, value in (("a", a), ("b", b)) if value} for a in each for b in each]
    assert bool(list(find_contradictions(selector))) == (not any(map(selects, labels)))
