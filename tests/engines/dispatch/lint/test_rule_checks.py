"""Rules that no request matches are reported, each with its index."""

import copy

import pytest

from tests.engines.dispatch.builders import WIDGETS, binding, export, webhook
from tests.engines.dispatch.lint.builders import PODS, WIDGET, find_issues, list_codes, rule, schema, validating


def test_bound_resources_are_served_with_and_without_a_known_schema() -> None:
    bound = binding("c", "p", "widgets.example.org")
    nameless = copy.deepcopy(bound)
    del nameless["status"]["boundResources"][0]["schema"]
    for one in (bound, nameless):
        assert list_codes(one, export("p", "widgets.example.org"), validating(webhook())) == ["shadowed"]


def test_the_bound_schema_decides_about_served_versions() -> None:
    documents = [
        binding("c", "p", "widgets.example.org"),
        export("p", "widgets.example.org"),
        schema("p", "widgets.example.org"),
    ]
    assert list_codes(*documents, validating(rule(apiVersions=["v2"]))) == ["unserved-resource", "shadowed"]


def test_each_rule_is_reported_with_its_index() -> None:
    unserved = {**WIDGETS, "resources": ["gadgets"]}
    issues = find_issues(WIDGET, validating(webhook(rules=[WIDGETS, unserved, unserved])))
    assert [text.partition(":")[0] for _, _, text in issues] == ["rules[1]", "rules[2]"]


@pytest.mark.parametrize(
    ("resources", "issues"),
    [(["pods/exec"], 0), (["nodes/proxy"], 0), (["services"], 1), (["pods/log"], 1), (["*"], 1), (["*/exec"], 0)],
)
def test_connect_needs_a_subresource_that_supports_it(resources: list[str], issues: int) -> None:
    found = find_issues(validating(webhook(rules=[{**PODS, "resources": resources, "operations": ["CONNECT"]}])))
    assert [code for code, _, _ in found if code == "no-connect"] == ["no-connect"] * issues


@pytest.mark.parametrize(
    ("group", "resources", "operations", "text"),
    [
        ("", ["pods/log"], ["*"], "pods/log can only be read, and webhooks get no reads"),
        ("", ["componentstatuses"], ["UPDATE"], "componentstatuses can only be read, and webhooks get no reads"),
        ("authentication.k8s.io", ["tokenreviews"], ["UPDATE", "DELETE"],
         "tokenreviews has no DELETE, UPDATE requests: set CREATE"),
        ("", ["pods/eviction"], ["DELETE"], "pods/eviction has no DELETE requests: set CREATE, or name the resource itself"),
        ("", ["pods/exec"], ["CREATE"], "pods/exec has no CREATE requests: set CONNECT, or name the resource itself"),
        ("apps", ["*/scale"], ["CREATE"], "*/scale has no CREATE requests: set UPDATE, or name the resource itself"),
        ("", ["pods/log", "pods"], ["UPDATE"], ""),
        ("", ["pods/*"], ["DELETE"], ""),
        ("subresources.kubevirt.io", ["virtualmachines/start"], ["CREATE"], ""),
        ("authentication.k8s.io", ["tokenreviews"], ["*"], ""),
    ],
)  # fmt: skip
def test_operations_must_be_those_of_the_resources(
    group: str, resources: list[str], operations: list[str], text: str
) -> None:
    rule = {**PODS, "apiGroups": [group], "resources": resources, "operations": operations}
    found = [one for code, _, one in find_issues(validating(webhook(rules=[rule]))) if code == "unsupported-operation"]
    assert [one.removeprefix("rules[0] never matches: ").startswith(text) for one in found] == [True] * bool(text)
