"""Rules that no request matches are reported, each with its index."""

import pytest

from tests.engines.dispatch.builders import WIDGETS, webhook
from tests.engines.dispatch.lint.builders import PODS, WIDGET, find_issues, validating


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
