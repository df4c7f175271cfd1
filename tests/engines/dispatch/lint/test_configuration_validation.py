"""Configurations of any shape are validated, beyond the cases of tests/conformance/test_dispatch_configurations.py."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.dispatch.lint.configuration_validation import configuration_warnings
from fleethook.engines.dispatch.webhooks.compiled_webhook import MUTATING, VALIDATING, set_defaults
from tests.engines.dispatch.lint.configuration_builders import (
    MISTYPED,
    find_errors,
    rule,
    valid_webhook,
    webhook_configuration,
)


def test_generate_name_replaces_the_name() -> None:
    assert find_errors({"metadata": {"generateName": "config-"}}) == []
    assert [field for field, _ in find_errors({"metadata": {"generateName": "Config-"}})] == ["metadata.generateName"]


def test_the_total_size_of_annotations_is_limited() -> None:
    limit = 256 * 1024
    assert find_errors(webhook_configuration(annotations={"a": "x" * (limit - 1)})) == []
    expected = [("metadata.annotations", f"Too long: may not be more than {limit} bytes")]
    assert find_errors(webhook_configuration(annotations={"a": "x" * (limit - 2), "b": "é"})) == expected


def test_expressions_are_stripped_before_compiling() -> None:
    conditions = [{"name": "a", "expression": " true\n"}, {"name": "b", "expression": " x "}]
    ((field, text),) = find_errors(webhook_configuration(valid_webhook(matchConditions=conditions)))
    assert field == "webhooks[0].matchConditions[1].expression"
    assert text.startswith('Invalid value: "x": ')


@pytest.mark.parametrize(
    ("members", "field", "expected"),
    [
        ({"name": 1}, "name", "a string"),
        ({"rules": {}}, "rules", "a list"),
        ({"rules": [1]}, "rules[0]", "an object"),
        ({"rules": [rule(operations="*")]}, "rules[0].operations", "a list"),
        ({"rules": [rule(operations=[{}])]}, "rules[0].operations[0]", "a string"),
        ({"rules": [rule(resources={"a": 1})]}, "rules[0].resources", "a list"),
        ({"rules": [rule(resources=[None])]}, "rules[0].resources[0]", "a string"),
        ({"rules": [rule(scope=1)]}, "rules[0].scope", "a string"),
        ({"failurePolicy": []}, "failurePolicy", "a string"),
        ({"sideEffects": 1}, "sideEffects", "a string"),
        ({"timeoutSeconds": 1.5}, "timeoutSeconds", "an integer"),
        ({"namespaceSelector": []}, "namespaceSelector", "an object"),
        ({"objectSelector": {"matchLabels": []}}, "objectSelector.matchLabels", "an object"),
        (
            {"objectSelector": {"matchLabels": {"a": 1}}},
            "objectSelector.matchLabels",
            'an object of strings: quote the value of "a"',
        ),
        ({"objectSelector": {"matchExpressions": {}}}, "objectSelector.matchExpressions", "a list"),
        ({"objectSelector": {"matchExpressions": [1]}}, "objectSelector.matchExpressions[0]", "an object"),
        ({"clientConfig": []}, "clientConfig", "an object"),
        ({"clientConfig": {"url": 1}}, "clientConfig.url", "a string"),
        ({"clientConfig": {"url": "https://a", "caBundle": "*"}}, "clientConfig.caBundle", "bytes in base64"),
        ({"clientConfig": {"url": "https://a", "caBundle": 1}}, "clientConfig.caBundle", "bytes in base64"),
        ({"admissionReviewVersions": {}}, "admissionReviewVersions", "a list"),
        ({"matchConditions": {}}, "matchConditions", "a list"),
        ({"matchConditions": [1]}, "matchConditions[0]", "an object"),
        ({"matchConditions": [{"name": 1, "expression": "true"}]}, "matchConditions[0].name", "a string"),
        ({"matchConditions": [{"name": "a", "expression": 1}]}, "matchConditions[0].expression", "a string"),
    ],
)
def test_members_of_a_wrong_type_are_errors(members: dict[str, Any], field: str, expected: str) -> None:
    assert find_errors(webhook_configuration(valid_webhook(**members))) == [
        (f"webhooks[0].{field}", f"{MISTYPED}{expected}")
    ]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"metadata": []}, [("metadata", f"{MISTYPED}an object")]),
        ({"metadata": {"name": "a"}, "webhooks": {}}, [("webhooks", f"{MISTYPED}a list")]),
        ({"metadata": {"name": "a"}, "webhooks": [None]}, [("webhooks[0]", f"{MISTYPED}an object")]),
        ({"metadata": {"name": 1}}, [("metadata.name", f"{MISTYPED}a string")]),
        ({"metadata": {"name": "a", "annotations": []}}, [("metadata.annotations", f"{MISTYPED}an object")]),
        (
            {"metadata": {"name": "a", "annotations": {"b": 1}}},
            [("metadata.annotations", f"{MISTYPED}an object of strings")],
        ),
        ({}, [("metadata.name", "Required value: name or generateName is required")]),
    ],
)
def test_documents_of_a_wrong_shape_are_errors(document: Any, expected: list[tuple[str, str]]) -> None:
    assert find_errors(document) == expected


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)


words = st.sampled_from(["*", "*/*", "a/*", "a", "", "v1", "None", "In", "https://a", "true", "Zm9v", "a.b.c", "Fail"])


members_known = st.sampled_from([
    "metadata", "name", "generateName", "labels", "annotations", "webhooks", "rules", "operations", "apiGroups", "apiVersions",
    "resources", "scope", "failurePolicy", "sideEffects", "timeoutSeconds", "namespaceSelector", "matchLabels", "matchExpressions",
    "key", "operator", "values", "clientConfig", "url", "service", "path", "port", "caBundle", "admissionReviewVersions",
    "matchConditions", "expression",
])  # fmt: skip


anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members_known, inner, max_size=6),
    max_leaves=30,
)


webhooks_bent = st.lists(st.dictionaries(members_known, anything, max_size=8) | anything, max_size=3)


documents = st.fixed_dictionaries({}, optional={"metadata": anything, "webhooks": webhooks_bent | anything})


@given(document=documents, kind=st.sampled_from([MUTATING.kind, VALIDATING.kind]))
def test_any_json_is_validated_without_raising(document: Any, kind: str) -> None:
    before = json.dumps(document)
    given_one = set_defaults({**document, "kind": kind})
    texts = find_errors(given_one, kind)
    assert all(field and text for field, text in texts)
    assert all(isinstance(text, str) for text in configuration_warnings(given_one))
    assert json.dumps(document) == before


def test_deeply_nested_documents_have_errors() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"name": deep}
    twice = [
        valid_webhook(name=deep, matchConditions=[deep], rules=[deep], admissionReviewVersions=[deep, deep]),
        valid_webhook(),
    ]
    assert find_errors(webhook_configuration(*twice))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"apiGroups": ["core"]}, 'apiGroups: the rule never matches: no API group is spelled like this (the group of pods is "")'),
        ({"apiGroups": ["Apps"]}, "apiGroups: the rule never matches: no API group is spelled like this"),
        ({"apiVersions": ["apps/v1"]}, "apiVersions: the rule never matches: no API version is spelled like this"),
        ({"resources": ["Pods", "Pods/status"]}, "resources: the rule never matches: resources are plurals in lower case"),
    ],
)  # fmt: skip
def test_rules_that_never_match_are_warnings(members: dict[str, list[str]], text: str) -> None:
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**members)])))) == [
        f"webhooks[0].rules[0].{text}"
    ]
    mixed = {member: [*values, "*"] for member, values in members.items()}
    assert [
        one
        for one in configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**mixed)])))
        if "never matches" in one
    ] == []


def test_invalid_bundles_are_warnings() -> None:
    unreadable = "Invalid value: unable to load root certificates: unable to parse bytes as PEM block"
    config = {"url": "https://a", "caBundle": "Zm9v"}
    assert list(configuration_warnings(webhook_configuration(valid_webhook(clientConfig=config)))) == [
        f"webhooks[0].clientConfig.caBundle: every call will fail: {unreadable}"
    ]
