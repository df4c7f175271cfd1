"""Label selectors of any type are validated."""

from typing import Any

import pytest

from fleethook.model.formats.names_and_labels import (
    compile_selector,
    is_dns1123_label,
    is_dns1123_subdomain,
    label_key_problem,
    label_value_problem,
    validate_selector,
)
from tests.engines.dispatch.lint.configuration_builders import find_errors, valid_webhook, webhook_configuration


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        ("a", True, True), ("a-1", True, True), ("a" * 63, True, True), ("a" * 64, False, True), ("a.b", False, True),
        ("a" * 254, False, False), ("", False, False), ("-a", False, False), ("a-", False, False), ("A", False, False),
        ("a..b", False, False), ("a\n", False, False), ("٣", False, False),
    ],
)  # fmt: skip
def test_labels_and_subdomains(text: str, *, label: bool, subdomain: bool) -> None:
    assert (is_dns1123_label(text), is_dns1123_subdomain(text)) == (label, subdomain)


@pytest.mark.parametrize("key", ["a", "A_b.c-1", "example.org/a", "a" * 63, "example.org/" + "a" * 63])
def test_valid_label_keys_have_no_problem(key: str) -> None:
    assert label_key_problem(key) is None


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "name part must be non-empty"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("-a", "name part must consist of alphanumeric characters"),
        ("Example.org/a", "'Example.org/a': prefix part a lowercase RFC 1123 subdomain must consist"),
        ("/a", "prefix part must be non-empty"),
        ("a/b/c", "a valid label key must consist"),
    ],
)
def test_invalid_label_keys_have_a_problem(key: str, problem: str) -> None:
    assert problem in (label_key_problem(key) or "")


def test_label_values_may_be_empty_and_have_63_characters() -> None:
    assert [label_value_problem(value) for value in ("", "a", "A.b_c-1", "a" * 63)] == [None] * 4
    for value in ("a" * 64, "a b", ".a", "a\n"):
        assert label_value_problem(value)


def test_requirements_of_wrong_types_are_errors() -> None:
    requirement = {"key": 1, "operator": 2, "values": 3}
    place = "webhooks[0].objectSelector.matchExpressions[0]"
    assert find_errors(webhook_configuration(valid_webhook(objectSelector={"matchExpressions": [requirement]}))) == [
        (f"{place}.values", "Invalid value: must be a list"),
        (f"{place}.operator", "Invalid value: must be a string"),
        (f"{place}.key", "Invalid value: must be a string"),
    ]


LABELS = {"app": "demo", "tier": "web"}


def expression(operator: str, key: str = "app", values: Any = None) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "demo"}}, True),
        ({"matchLabels": {"app": "demo", "x": "y"}}, False),
        (expression("In", values=["demo", "x"]), True),
        (expression("In", values=["x"]), False),
        (expression("In", key="none", values=["x"]), False),
        (expression("NotIn", values=["x"]), True),
        (expression("NotIn", values=["demo"]), False),
        (expression("NotIn", key="none", values=["x"]), True),
        (expression("Exists"), True),
        (expression("Exists", key="none"), False),
        (expression("DoesNotExist", key="none"), True),
        (expression("DoesNotExist"), False),
        (expression("Bogus"), False),
        ({"matchExpressions": [None]}, False),
        ({"matchLabels": {"app": "demo"}, **expression("Exists", key="none")}, False),
    ],
)
def test_selection(selector: Any, selected: bool) -> None:
    assert compile_selector(selector)(LABELS) is selected


@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ([], "/s"),
        ({"matchLabels": {"a b": "c"}}, "/s/matchLabels"),
        ({"matchLabels": {"a": "-"}}, "/s/matchLabels"),
        ({"matchLabels": {"a": 1}}, "/s/matchLabels"),
        ({"matchLabels": {"Upper.Case/a": "b"}}, "/s/matchLabels"),
        (expression("In"), "/s/matchExpressions/0/values"),
        (expression("Exists", values=["x"]), "/s/matchExpressions/0/values"),
        (expression("Gt", values=["1"]), "/s/matchExpressions/0/operator"),
        (expression("In", key="", values=["x"]), "/s/matchExpressions/0/key"),
        (expression("In", values=["x" * 64]), "/s/matchExpressions/0/values/0"),
        ({"matchExpressions": ["x"]}, "/s/matchExpressions/0"),
    ],
)
def test_problems_have_their_pointer(selector: Any, place: str) -> None:
    assert {found for found, _ in validate_selector(selector, "/s")} == {place}


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"example.com/a_b.c": ""}}, expression("In", values=["A-1"])])
def test_a_valid_selector_has_no_problems(selector: Any) -> None:
    assert list(validate_selector(selector, "/s")) == []
