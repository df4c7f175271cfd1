"""Webhooks are compiled from configurations."""

import json
import time
from typing import Any

import pytest

from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.explain import explain
from fleethook.engines.dispatch.lint.lint import lint
from fleethook.engines.dispatch.webhooks.webhook import (
    DISPATCH_ONLY,
    MUTATING,
    VALIDATING,
    OwnEndpoints,
    compile_webhooks,
    list_own_addresses,
    set_defaults,
)
from tests.engines.dispatch.builders import configuration, request_of, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.lint.configuration_builders import find_errors, rule, valid_webhook, webhook_configuration
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook
from tests.waiting import NET


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
        rules=[rule(), rule(scope="Cluster")], clientConfig={"service": {"name": "n"}}, timeoutSeconds=3
    )
    (filled,) = set_defaults(webhook_configuration(given_one, kind=MUTATING.kind))["webhooks"]
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
    (validating,) = set_defaults(webhook_configuration(valid_webhook(), kind=VALIDATING.kind))["webhooks"]
    assert "reinvocationPolicy" not in validating
    assert find_errors(webhook_configuration(valid_webhook(reinvocationPolicy="x")), kind=VALIDATING.kind) == []


def test_defaults_replace_null_and_do_not_change_the_argument() -> None:
    document = webhook_configuration(valid_webhook(failurePolicy=None, rules=[rule(scope=None)]))
    before = json.dumps(document)
    (filled,) = set_defaults(document)["webhooks"]
    assert (filled["failurePolicy"], filled["rules"][0]["scope"], json.dumps(document)) == ("Fail", "*", before)


OWN = OwnEndpoints(
    lambda: list_own_addresses(
        service="fleet/hook:8443",
        webhook_url="https://hooks.example.org/fleethook/",
        names=["localhost", "127.0.0.1", "::1"],
        port=9443,
    )
)


def find_reason(client_config: dict[str, Any], cluster: str = "ws1") -> str:
    (compiled,) = compile_webhooks(
        "validating", cluster, configuration(cluster, "validating", webhook(clientConfig=client_config))
    )
    return OWN.find_reason(compiled)


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:9443/dispatch/validate", "https://LocalHost.:9443/dispatch/mutate",
        "https://127.0.0.1:9443/clusters/ws3/mutate", "https://[::1]:9443/clusters/root:org:ws/validate",
        "https://hook.fleet.svc:8443/dispatch/validate", "https://hook.fleet.svc.cluster.local:8443/dispatch/validate",
        "https://hooks.example.org/fleethook/dispatch/validate", "https://hooks.example.org:443/fleethook/clusters/a/mutate",
        "https://localhost:9443/x/../dispatch/validate", "https://localhost:9443/dispatch/validat%65",
    ],
)  # fmt: skip
def test_own_dispatch_routes_are_recognized_in_any_spelling(url: str) -> None:
    assert find_reason({"url": url}) == (
        f"{url} is a dispatch route of this fleethook, which would call the same webhooks again: remove the webhook from "
        "the configuration hooks of logical cluster ws1"
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:9444/dispatch/validate", "https://other.example.org:9443/dispatch/validate",
        "https://hooks.example.org/dispatch/validate", "https://hooks.example.org/fleethookx/dispatch/validate",
        "https://localhost:9443/mutate-apps-v1-deployment", "https://localhost:9443/clusters/validate",
        "https://localhost:9443/clusters/ws3/xmutate", "https://localhost:9443/clusters/ws3/explain",
        "https://localhost:9443/dispatch/validate/", "https://[/validate",
    ],
)  # fmt: skip
def test_other_webhooks_are_called(url: str) -> None:
    assert find_reason({"url": url}) == ""


def test_the_own_service_is_recognized_in_a_plain_cluster() -> None:
    service = {"name": "hook", "namespace": "fleet", "path": "/dispatch/validate"}
    assert find_reason({"service": {**service, "port": 8443}}, cluster="").endswith(
        "the configuration hooks of this cluster"
    )
    assert find_reason({"service": service}, cluster="") == ""


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("phase", ["mutating", "validating"])
async def test_own_routes_are_skipped_with_a_warning(front: Front, server: Webhooks, phase: Any, policy: str) -> None:
    server.answers.update({"/dispatch/validate": allow, "/w": allow})
    own = OwnEndpoints(
        lambda: list_own_addresses(service=None, webhook_url=None, names=["127.0.0.1"], port=server.port)
    )
    made = configuration(
        "ws1", phase, hook(server, "/dispatch/validate", "own.example.org", failurePolicy=policy), hook(server, "/w")
    )
    store = store_of(made)
    response = (await front.dispatch(store, review(), cluster="ws1", phase=phase, own=own)).response
    assert response.allowed
    assert server.paths == ["/w"]
    (warning,) = response.warnings
    assert warning.startswith('admission webhook "own.example.org" was not called: https://127.0.0.1:')
    assert warning.endswith("remove the webhook from the configuration hooks of logical cluster ws1")
    annotations = response.audit_annotations
    prefix = "mutation" if phase == "mutating" else "validating"
    assert annotations is not None
    noted = json.loads(annotations[f"own-endpoint.{prefix}.webhook.admission.k8s.io/index_0"])
    assert noted == {"configuration": "hooks", "webhook": "own.example.org"}

    dispatcher = front.dispatcher(store, own=own)
    found = await explain(dispatcher, request_of(review()), cluster="ws1", deadline=Deadline(time.monotonic() + NET))
    explained = found.mutating if phase == "mutating" else found.validating
    assert [(one.decision, one.stage) for one in explained] == [("skip", "ownEndpoint"), ("call", "")]
    assert explained[0].reason in warning


async def test_own_routes_that_do_not_match_give_no_warning(front: Front, server: Webhooks) -> None:
    own = OwnEndpoints(
        lambda: list_own_addresses(service=None, webhook_url=None, names=["127.0.0.1"], port=server.port)
    )
    selecting = hook(server, "/dispatch/validate", objectSelector={"matchLabels": {"a": "b"}})
    store = store_of(configuration("ws1", "validating", selecting))
    assert (await front.dispatch(store, review(), cluster="ws1", own=own)).response.warnings == ()
