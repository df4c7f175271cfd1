"""An apiserver's defaults of webhook configurations."""

import json

from fleethook.engines.dispatch.hooks.hook_defaults import MUTATING, VALIDATING, set_defaults
from tests.engines.dispatch.validation.builders import configuration, find_errors, rule, webhook


def test_missing_members_are_defaulted_and_existing_ones_are_kept() -> None:
    given_one = webhook(
        rules=[rule(), rule(scope="Cluster")], clientConfig={"service": {"name": "n"}}, timeoutSeconds=3
    )
    (filled,) = set_defaults(configuration(given_one, kind=MUTATING))["webhooks"]
    assert filled == {
        **given_one,
        "rules": [rule(scope="*"), rule(scope="Cluster")],
        "clientConfig": {"service": {"name": "n", "port": 443}},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 3,
    }


def test_only_mutating_hooks_have_a_reinvocation_policy() -> None:
    (validating,) = set_defaults(configuration(webhook(), kind=VALIDATING))["webhooks"]
    assert "reinvocationPolicy" not in validating
    assert find_errors(configuration(webhook(reinvocationPolicy="x")), kind=VALIDATING) == []


def test_defaults_replace_null_and_do_not_change_the_argument() -> None:
    document = configuration(webhook(failurePolicy=None, rules=[rule(scope=None)]))
    before = json.dumps(document)
    (filled,) = set_defaults(document)["webhooks"]
    assert (filled["failurePolicy"], filled["rules"][0]["scope"], json.dumps(document)) == ("Fail", "*", before)


def test_webhooks_do_not_share_default_objects() -> None:
    one, other = set_defaults(configuration(webhook(), webhook()))["webhooks"]
    assert one["namespaceSelector"] is not other["namespaceSelector"]
    assert one["namespaceSelector"] is not one["objectSelector"]


def test_defaulting_is_idempotent() -> None:
    once = set_defaults(configuration(webhook(rules=[rule()])))
    assert set_defaults(once) == once
