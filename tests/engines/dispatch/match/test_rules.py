"""Rules match requests by each of their fields."""

from typing import Any

import pytest
from hypothesis import given, settings

from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.match.rules import (
    EquivalentIndex,
    RuleAttributes,
    compare_fields,
    find_nearest_miss,
    match_rules,
    matches_rule,
)
from tests.engines.dispatch.builders import WIDGETS, configuration, webhook
from tests.engines.dispatch.worlds import KIND, equivalents, hooks, resource, rule_attributes
from tests.hypothesis_profiles import examples


@settings(max_examples=examples(300))
@given(hooks("c"), rule_attributes)
def test_a_rule_matches_if_each_field_matches(made: Any, request: Any) -> None:
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", made))
    for rule in hook.rules:
        assert matches_rule(rule, request) is all(axis.ok for axis in compare_fields(rule, request))


@settings(max_examples=examples(300))
@given(hooks("c"), rule_attributes, equivalents)
def test_a_webhook_with_the_changes_of_the_nearest_miss_matches(made: Any, request: Any, others: Any) -> None:
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", made))
    miss = find_nearest_miss(hook, request, EquivalentIndex(others))
    found = match_rules(hook, request, KIND, others)
    assert (miss is None) is (not hook.rules or found is not None)
    if miss is None:
        return
    rule = hook.rules[miss.rule]
    for axis in miss.missed:
        assert axis.actual not in axis.listed
        if axis.name == "scope":
            rule = rule._replace(scope=axis.actual)
        elif axis.name == "matchPolicy":
            hook = hook._replace(matches_equivalents=True)
        elif axis.name == "resources":
            plural, _, subresource = axis.actual.partition("/")
            rule = rule._replace(resources=(*rule.resources, (plural, subresource)))
        else:
            field = {"apiGroups": "groups", "apiVersions": "versions"}.get(axis.name, axis.name)
            rule = rule._replace(**{field: {*axis.listed, axis.actual}})
    changed = match_rules(hook._replace(rules=(rule,)), request, KIND, others)
    assert changed is not None
    assert changed.resource == (miss.equivalent or request.resource)


@pytest.mark.parametrize(
    ("rule", "request_", "text"),
    [
        ({"resources": ["namespaces"], "scope": "Namespaced"}, ("namespaces", "", True),
         "its scope were 'Cluster' or '*' instead of 'Namespaced'"),
        ({"resources": ["namespaces"], "scope": "Cluster"}, ("namespaces", "status", True),
         "'namespaces/status' were in resources ['namespaces']"),
        ({"resources": ["*"]}, ("pods", "status", True),
         "'pods/status' were in resources ['*'], whose '*' includes no subresources"),
        ({"resources": ["nodes"], "scope": "Namespaced"}, ("nodes", "", False),
         "its scope were 'Cluster' or '*' instead of 'Namespaced'"),
        ({"resources": ["pods/*"], "operations": ["UPDATE"]}, ("pods", "exec", True),
         "'CREATE' were in operations ['UPDATE']"),
        ({"resources": ["*/scale"]}, ("pods", "", True), "'pods' were in resources ['*/scale']"),
        ({"resources": ["pods"]}, ("pods", "", True), None),
    ],
)  # fmt: skip
def test_the_nearest_miss_names_the_fields_to_change(
    rule: dict[str, Any], request_: tuple[str, str, bool], text: str | None
) -> None:
    every = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "scope": "*"}
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=[{**every, **rule}])))
    plural, subresource, namespaced = request_
    request = RuleAttributes("CREATE", resource(plural=plural, group=""), subresource, namespaced=namespaced)
    miss = find_nearest_miss(hook, request, EquivalentIndex(()))
    assert (None if miss is None else str(miss)) == (None if text is None else f"rules[0] would match if {text}")


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
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))
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
    (hook,) = compile_hooks("validating", "c", configuration("c", "validating", webhook(rules=rules)))
    request = RuleAttributes("CREATE", resource(plural=plural, group=""), "", namespaced=namespaced)
    assert matches_rule(hook.rules[0], request) is matches
