"""The nearest miss of a request names the fields to change."""

from typing import Any

import pytest
from hypothesis import given, settings

from fleethook.engines.dispatch.hooks.hooks import compile_hooks
from fleethook.engines.dispatch.match.rules import EquivalentIndex, find_nearest_miss, match_rules
from fleethook.model.webhook_rules import RuleAttributes
from tests.engines.dispatch.builders import configuration, webhook
from tests.engines.dispatch.worlds import KIND, equivalents, hooks, resource, rule_attributes
from tests.hypothesis_profiles import examples


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
