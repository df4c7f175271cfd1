"""Rules match requests by each of their fields."""

from typing import Any

import pytest
from hypothesis import given, settings

from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.model.rule_matching import RuleAttributes, compare_fields, matches_rule
from tests.engines.dispatch.builders import WIDGETS, configuration, webhook
from tests.engines.dispatch.worlds import hooks, resource, rule_attributes
from tests.hypothesis_profiles import examples


@settings(max_examples=examples(300))
@given(hooks("c"), rule_attributes)
def test_a_rule_matches_if_each_field_matches(made: Any, request: Any) -> None:
    (hook,) = compile_webhooks("validating", "c", configuration("c", "validating", made))
    for rule in hook.rules:
        assert matches_rule(rule, request) is all(axis.ok for axis in compare_fields(rule, request))


@pytest.mark.parametrize(
    ("listed", "subresource", "matches"),
    [
        ("widgets", "", True), ("widgets", "status", False), ("*", "", True), ("*", "status", False),
        ("widgets/*", "", True), ("widgets/*", "status", True), ("*/*", "scale", True), ("*/scale", "", False),
        ("*/scale", "scale", True), ("gadgets", "", False),
    ],
)  # fmt: skip
def test_resources_match_with_wildcards_and_subresources(listed: str, subresource: str, *, matches: bool) -> None:
    rules = [{**WIDGETS, "resources": [listed]}]
    (hook,) = compile_webhooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))
    request = RuleAttributes("CREATE", resource(), subresource, namespaced=True)
    assert matches_rule(hook.rules[0], request) is matches


@pytest.mark.parametrize(
    ("scope", "plural", "namespaced", "matches"),
    [
        ("Namespaced", "widgets", True, True), ("Namespaced", "widgets", False, False),
        ("Cluster", "widgets", True, False), ("Cluster", "widgets", False, True), ("*", "widgets", True, True),
        ("Cluster", "namespaces", True, True), ("Namespaced", "namespaces", True, False),
    ],
)  # fmt: skip
def test_namespaces_are_cluster_scoped(scope: str, plural: str, *, namespaced: bool, matches: bool) -> None:
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": scope}]
    (hook,) = compile_webhooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))
    request = RuleAttributes("CREATE", resource(plural=plural, group=""), "", namespaced=namespaced)
    assert matches_rule(hook.rules[0], request) is matches
