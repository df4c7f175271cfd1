"""Tests of the fields of hook configurations. tests/conformance/test_interpreter.py has Karmada's cases."""

from typing import Any

import pytest

from fleethook.engines.interpret.hooks.hook_validation import problems
from fleethook.model.karmada import EXPLORING_CONFIGURATION, INTERPRETER_CONFIGURATION

RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "kinds": ["Foo"], "operations": ["InterpretHealth"]}
HOOK = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "interpreterContextVersions": ["v1alpha1"]}
PROPOSED_RULE = {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["foos"], "operations": ["*"]}
PROPOSED = {"name": "w.example.org", "clientConfig": {"url": "https://h/"}, "exploreReviewVersions": ["v1alpha1"]}


def find(webhook: dict[str, Any], *, proposed: bool = False) -> list[str]:
    kind = EXPLORING_CONFIGURATION if proposed else INTERPRETER_CONFIGURATION
    return [one.field for one in problems(kind, {"metadata": {"name": "c"}, "webhooks": [webhook]})]


def test_valid_configurations_have_no_problem() -> None:
    assert find({**HOOK, "rules": [RULE], "timeoutSeconds": 30}) == []
    assert find({**PROPOSED, "rules": [PROPOSED_RULE], "failurePolicy": "Ignore"}, proposed=True) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "w"}, "name"),
        ({"timeoutSeconds": 31}, "timeoutSeconds"),
        ({"clientConfig": {}}, "clientConfig"),
        ({"interpreterContextVersions": []}, "interpreterContextVersions"),
        ({"rules": [{**RULE, "operations": []}]}, "rules[0].operations"),
        ({"rules": [RULE, {**RULE, "operations": ["Retain", "Guess"]}]}, "rules[1].operations[1]"),
        ({"rules": [{**RULE, "operations": ["Prune"]}]}, "rules[0].operations[0]"),
        ({"rules": [{**RULE, "kinds": []}]}, "rules[0].kinds"),
        ({"rules": [{**RULE, "apiVersions": [""]}]}, "rules[0].apiVersions[0]"),
    ],
)
def test_a_wrong_member_is_named(change: dict[str, Any], field: str) -> None:
    assert find({**HOOK, **change}) == [f"webhooks[0].{field}"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"failurePolicy": "Maybe"}, "failurePolicy"),
        ({"rules": [{**PROPOSED_RULE, "scope": "Everywhere"}]}, "rules[0].scope"),
        ({"rules": [{**PROPOSED_RULE, "resources": []}]}, "rules[0].resources"),
    ],
)
def test_the_proposed_kind_has_policy_resources_and_scope(change: dict[str, Any], field: str) -> None:
    assert find({**PROPOSED, **change}, proposed=True) == [f"webhooks[0].{field}"]
    assert find({**HOOK, "failurePolicy": "Maybe", "rules": [{**RULE, "scope": "Everywhere"}]}) == []
