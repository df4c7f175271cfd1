"""Webhooks are compiled from configurations."""

import json
from typing import Any

import pytest

from fleethook.engines.dispatch.lint.rule_and_binding_checks import lint
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import (
    DISPATCH_ONLY,
    MUTATING,
    VALIDATING,
    compile_webhooks,
    set_defaults,
)
from tests.engines.dispatch.builders import configuration, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.lint.configuration_builders import (
    find_errors,
    open_rule,
    valid_webhook,
    webhook_configuration,
)
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook


@pytest.mark.parametrize(
    ("condition", "called"),
    [
        ({"name": DISPATCH_ONLY, "expression": "false"}, True),
        ({"name": DISPATCH_ONLY, "expression": " false\n"}, True),
        ({"name": DISPATCH_ONLY, "expression": "1 > 2"}, False),
        ({"name": "never", "expression": "false"}, False),
    ],
)
async def test_only_the_false_dispatch_only_condition_is_ignored(
    front: Front, server: Webhooks, condition: Any, called: bool
) -> None:
    server.answers["/w"] = allow
    made = configuration("ws1", "validating", hook(server, "/w", matchConditions=[condition]))
    assert (await front.dispatch(store_of(made), review(), cluster="ws1")).response.allowed
    assert bool(server.calls) is called


async def test_other_conditions_of_the_webhook_are_evaluated(front: Front, server: Webhooks) -> None:
    conditions = [{"name": DISPATCH_ONLY, "expression": "false"}, {"name": "deletion", "expression": "object == null"}]
    made = configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions))
    assert (await front.dispatch(store_of(made), review(), cluster="ws1")).response.allowed
    assert server.calls == []


def test_lint_accepts_the_dispatch_only_condition() -> None:
    condition = {"name": DISPATCH_ONLY, "expression": "false"}
    made = configuration("ws1", "validating", webhook(matchConditions=[condition]))
    assert "never-called" not in [one.code for one in lint(store_of(made))]


def test_members_of_a_wrong_type_are_ignored() -> None:
    odd = {
        "metadata": {"name": "odd"},
        "webhooks": [
            None, 7, {"name": 3, "rules": "x", "timeoutSeconds": True, "clientConfig": [], "matchConditions": {}},
            {"name": "w", "rules": [None, {"operations": "CREATE", "resources": [1]}], "timeoutSeconds": 10**9,
             "namespaceSelector": {"matchLabels": 3}, "objectSelector": {"matchExpressions": [None]},
             "admissionReviewVersions": [None, "v1"], "failurePolicy": 3},
        ],
    }  # fmt: skip
    first, second = compile_webhooks("validating", "c", odd)
    assert (first.name, first.rules, first.seconds, first.endpoint) == ("", (), 10.0, None)
    assert (second.review_versions, second.seconds, second.fails_open) == (("v1",), 30.0, False)
    assert second.namespace_selector.problem
    assert second.object_selector.problem
    assert not second.rules[0].operations


def test_missing_members_are_defaulted_and_existing_ones_are_kept() -> None:
    given_one = valid_webhook(
        rules=[open_rule(), open_rule(scope="Cluster")], clientConfig={"service": {"name": "n"}}, timeoutSeconds=3
    )
    (filled,) = set_defaults(webhook_configuration(given_one, kind=MUTATING.kind))["webhooks"]
    assert filled == {
        **given_one,
        "rules": [open_rule(scope="*"), open_rule(scope="Cluster")],
        "clientConfig": {"service": {"name": "n", "port": 443}},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 3,
    }


def test_only_mutating_hooks_have_a_reinvocation_policy() -> None:
    (validating,) = set_defaults(webhook_configuration(valid_webhook(), kind=VALIDATING.kind))["webhooks"]
    assert "reinvocationPolicy" not in validating
    assert find_errors(webhook_configuration(valid_webhook(reinvocationPolicy="x")), kind=VALIDATING.kind) == []


def test_defaults_replace_null_and_do_not_change_the_argument() -> None:
    document = webhook_configuration(valid_webhook(failurePolicy=None, rules=[open_rule(scope=None)]))
    before = json.dumps(document)
    (filled,) = set_defaults(document)["webhooks"]
    assert (filled["failurePolicy"], filled["rules"][0]["scope"], json.dumps(document)) == ("Fail", "*", before)
