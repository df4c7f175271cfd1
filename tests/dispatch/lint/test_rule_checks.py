"""Rules that no request matches are reported, each with its index."""

import pytest

from tests.dispatch.builders import WIDGETS, webhook
from tests.dispatch.lint.builders import PODS, WIDGET, find_issues, validating


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
