"""Both phases in whole dispatches: failures, time, dry runs, reinvocation, patches."""

import base64
import json
from typing import Any

import pytest
from aiohttp import web

from tests.dispatch.builders import (
    WIDGETS,
    configuration,
    definition,
    review,
    store_of,
    widget,
)
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, hook, label, mutated, patch
from tests.waiting import with_patience_async


def stopped() -> float:
    """A clock by which nothing takes any time."""
    return 0.0


async def test_a_failing_webhook_that_may_is_passed_over_and_written_down(front: Front, server: Webhooks) -> None:
    server.answers["/down"] = lambda _: web.Response(status=500, text="sorry")
    server.answers["/w"] = label("seen")
    hooks = (hook(server, "/down", "down.example.org", failurePolicy="Ignore"), hook(server, "/w"))
    store = store_of(configuration("ws1", "mutating", *hooks))
    found = await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert mutated(found, widget())["metadata"]["labels"] == {"seen": "true"}
    annotations = found.response.audit_annotations
    assert annotations["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"] == "down.example.org"
    called = {"configuration": "hooks", "webhook": "down.example.org", "mutated": False}
    assert json.loads(annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]) == called


async def test_a_request_whose_time_is_up_is_told_so_even_if_failures_are_ignored(
    front: Front, server: Webhooks
) -> None:
    server.hold.clear()
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", failurePolicy="Ignore"), hook(server, "/x")))

    async def dispatch(seconds: float) -> Any:
        return (await front.dispatch(store, review(), cluster="ws1", phase="mutating", seconds=seconds)).response

    response = await with_patience_async(dispatch, lambda _: server.paths)
    assert (response.allowed, response.code, response.reason) == (False, 504, "Timeout")
    assert response.message == "Timeout: request did not complete within requested timeout"
    assert server.paths == ["/w"]


async def test_webhooks_are_told_the_smaller_of_their_time_and_what_is_left_rounded_up(
    front: Front, server: Webhooks
) -> None:
    server.answers["/w"] = allow
    hooks = (hook(server, "/w", timeoutSeconds=20), hook(server, "/w", timeoutSeconds=5))
    store = store_of(configuration("ws1", "mutating", *hooks), configuration("ws1", "validating", *hooks))
    for phase in ("mutating", "validating"):
        await front.dispatch(store, review(), cluster="ws1", phase=phase, seconds=9.5, clock=stopped)
    assert sorted(call.query for call in server.calls) == ["timeout=10s", "timeout=10s", "timeout=5s", "timeout=5s"]


async def test_time_can_be_shared_among_webhooks_whose_failure_is_ignored(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    ignoring = {"failurePolicy": "Ignore", "timeoutSeconds": 30}
    hooks = (hook(server, "/w", **ignoring), hook(server, "/w", **ignoring), hook(server, "/w", timeoutSeconds=30))
    store = store_of(configuration("ws1", "mutating", *hooks))
    await front.dispatch(store, review(), cluster="ws1", phase="mutating", seconds=29.7, clock=stopped, share=True)
    assert [call.query for call in server.calls] == ["timeout=10s", "timeout=15s", "timeout=30s"]


@pytest.mark.parametrize(
    ("side_effects", "code", "message"),
    [
        ("Some", 400, 'admission webhook "w.example.org" does not support dry run'),
        ("Unknown", 400, 'admission webhook "w.example.org" does not support dry run'),
        (None, 500, 'Internal error occurred: failed calling webhook "w.example.org": Webhook SideEffects is nil'),
    ],
)
async def test_a_dry_run_is_refused_where_a_webhook_may_have_effects(
    front: Front, server: Webhooks, side_effects: Any, code: Any, message: Any
) -> None:
    store = store_of(configuration("ws1", "validating", hook(server, "/w", sideEffects=side_effects)))
    response = (await front.dispatch(store, review(dryRun=True), cluster="ws1")).response
    assert (response.code, response.message) == (code, message)
    assert server.calls == []


@pytest.mark.parametrize("side_effects", ["None", "NoneOnDryRun"])
async def test_a_dry_run_is_dispatched_where_there_are_no_effects(
    front: Front, server: Webhooks, side_effects: Any
) -> None:
    server.answers["/w"] = allow
    store = store_of(configuration("ws1", "validating", hook(server, "/w", sideEffects=side_effects)))
    assert (await front.dispatch(store, review(dryRun=True), cluster="ws1")).response.allowed
    assert server.calls[0].review["request"]["dryRun"] is True


async def test_what_webhooks_warn_of_and_note_is_passed_on_also_from_those_that_deny(
    front: Front, server: Webhooks
) -> None:
    server.answers["/1"] = lambda _: {"allowed": True, "warnings": ["one", "both"], "auditAnnotations": {"k": "v"}}
    server.answers["/2"] = lambda _: {
        "allowed": False,
        "warnings": ["both", "two"],
        "auditAnnotations": {"bad key": "v"},
    }
    hooks = (hook(server, "/1", "1.example.org"), hook(server, "/2", "2.example.org"))
    store = store_of(configuration("ws1", "validating", *hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.warnings == ("one", "both", "two")
    assert response.audit_annotations == {"1.example.org/k": "v"}


async def test_a_webhook_is_asked_again_if_one_after_it_changed_the_object(front: Front, server: Webhooks) -> None:
    server.answers["/first"] = label("first")
    server.answers["/second"] = patch({"op": "add", "path": "/spec/second", "value": True})
    hooks = (hook(server, "/first", reinvocationPolicy="IfNeeded"), hook(server, "/second"))
    store = store_of(configuration("ws1", "mutating", *hooks))
    found = await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert server.paths == ["/first", "/second", "/first"]
    assert server.calls[2].object["spec"] == {"second": True}
    assert "mutation.webhook.admission.k8s.io/round_1_index_0" in found.response.audit_annotations


@pytest.mark.parametrize("kind", ["JSONPatch", "MergePatch"])
async def test_a_patch_on_a_deletion_is_refused(front: Front, server: Webhooks, kind: str) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/x", "value": 1}, patchType=kind)
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", failurePolicy="Ignore")))
    made = review(None, old=widget(), operation="DELETE")
    response = (await front.dispatch(store, made, cluster="ws1", phase="mutating")).response
    text = 'admission webhook "w.example.org" attempted to modify the object, which is not supported for this operation'
    assert (response.code, response.message) == (500, f"Internal error occurred: {text}")


@pytest.mark.parametrize(("policy", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_type_of_patch_that_is_not_known_is_a_failure_of_the_webhook(
    front: Front, server: Webhooks, policy: str, *, allowed: bool
) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/x", "value": 1}, patchType="MergePatch")
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", failurePolicy=policy)))
    response = (await front.dispatch(store, review(), cluster="ws1", phase="mutating")).response
    assert (response.allowed, bool(response.patch)) == (allowed, False)
    assert allowed or response.message.endswith('unsupported patch type "MergePatch"')


async def test_patches_are_applied_as_an_apiserver_does(front: Front, server: Webhooks) -> None:
    """``replace`` of a member that is not there makes it."""
    server.answers["/w"] = patch({"op": "replace", "path": "/spec/colour", "value": "red"})
    store = store_of(configuration("ws1", "mutating", hook(server, "/w")))
    found = await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert mutated(found, widget()) == widget(colour="red")


async def test_what_a_webhook_does_to_a_secret_is_not_written_down(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/data", "value": {"password": "aHVudGVyMg=="}})
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}]
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", rules=rules)))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    found = await front.dispatch(store, review(secret), cluster="ws1", phase="mutating")
    assert mutated(found, secret)["data"] == {"password": "aHVudGVyMg=="}
    assert base64.b64decode("aHVudGVyMg==").decode() not in str(found.response.audit_annotations)
    assert list(found.response.audit_annotations) == ["mutation.webhook.admission.k8s.io/round_0_index_0"]


async def test_a_condition_sees_what_webhooks_before_it_made(front: Front, server: Webhooks) -> None:
    server.answers["/grow"] = patch({"op": "replace", "path": "/spec/size", "value": 99})
    server.answers["/large"] = label("large")
    conditions = [{"name": "large", "expression": "object.spec.size > 10"}]
    some = [{"name": "some", "expression": "object.spec.size > 0"}]
    store = store_of(
        configuration(
            "ws1", "mutating", hook(server, "/grow", "grow.example.org", matchConditions=some),
            hook(server, "/large", "large.example.org", matchConditions=conditions),
        )
    )  # fmt: skip
    await front.dispatch(store, review(widget(size=1)), cluster="ws1", phase="mutating")
    assert server.paths == ["/grow", "/large"]


async def test_a_converted_object_has_what_webhooks_before_made(front: Front, server: Webhooks) -> None:
    server.answers["/1"] = patch({"op": "add", "path": "/spec/first", "value": 1})
    server.answers["/2"] = patch({"op": "add", "path": "/spec/second", "value": 2})
    rules = [{**WIDGETS, "apiVersions": ["v1beta1"]}]
    store = store_of(
        definition("ws1", "widgets.example.org", "v1", "v1beta1"),
        configuration(
            "ws1", "mutating", hook(server, "/1", "1.example.org", rules=rules),
            hook(server, "/2", "2.example.org", rules=rules),
        ),
    )  # fmt: skip
    found = await front.dispatch(store, review(widget()), cluster="ws1", phase="mutating")
    assert server.calls[1].object["spec"] == {"first": 1}
    assert mutated(found, widget()) == widget(first=1, second=2)


async def test_a_webhook_that_failed_is_asked_again_like_one_that_did_not(front: Front, server: Webhooks) -> None:
    server.answers["/down"] = lambda _: web.Response(status=500)
    server.answers["/w"] = label("seen")
    down = hook(server, "/down", "down.example.org", failurePolicy="Ignore", reinvocationPolicy="IfNeeded")
    store = store_of(configuration("ws1", "mutating", down, hook(server, "/w")))
    await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert server.paths == ["/down", "/w", "/down"]


async def test_no_validating_webhook_is_asked_once_the_time_is_up(front: Front, server: Webhooks) -> None:
    store = store_of(configuration("ws1", "validating", hook(server, "/w", failurePolicy="Ignore")))
    response = (await front.dispatch(store, review(), cluster="ws1", seconds=0)).response
    assert (response.allowed, response.code, response.reason) == (False, 504, "Timeout")
    assert server.calls == []
