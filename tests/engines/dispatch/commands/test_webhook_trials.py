import time
from typing import Any

from fleethook.cli.trials import REDACTED, Trial
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.commands.webhook_trials import try_webhooks
from fleethook.engines.dispatch.input_request import InputDocument, InputRequest
from tests.engines.dispatch.builders import configuration, namespace, request_of, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, hook, label, patch
from tests.waiting import NET


async def try_all(front: Front, documents: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Trial]:
    dispatcher = front.dispatcher(store_of(*documents))
    deadline = Deadline(time.monotonic() + NET)
    sent = request_of(request)
    planned = InputRequest(sent, sent, "", InputDocument(request, "f:1", ""))
    return {str(one.members["webhook"]): one async for one in try_webhooks(dispatcher, planned, deadline)}


async def test_each_webhook_gets_the_object_and_none_hides_another(front: Front, server: Webhooks) -> None:
    server.answers = {
        "/deny": deny("too large"),
        "/label": label("a"),
        "/same": patch({"op": "test", "path": "/kind", "value": "Widget"}),
        "/warn": lambda _: {"allowed": True, "warnings": ["old"]},
        "/bad": patch({"op": "remove", "path": "/no"}),
    }
    mutating = configuration(
        "", "mutating",
        hook(server, "/deny", "deny.example.org"), hook(server, "/label", "label.example.org"),
        hook(server, "/same", "same.example.org"), hook(server, "/bad", "bad.example.org", failurePolicy="Ignore"),
        hook(server, "/x", "effects.example.org", sideEffects="Some"),
    )  # fmt: skip
    never = [{"name": "never", "expression": "false"}]
    wrong = [{"name": "wrong", "expression": "object.no.such == 1"}]
    validating = configuration(
        "", "validating",
        hook(server, "/warn", "warn.example.org"), hook(server, "/gone", "gone.example.org", failurePolicy="Ignore"),
        hook(server, "/warn", "never.example.org", matchConditions=never),
        hook(server, "/warn", "wrong.example.org", matchConditions=wrong),
    )  # fmt: skip
    found = await try_all(front, [mutating, validating, namespace("")], review(widget(), dryRun=True))
    assert {name: one.outcome for name, one in found.items()} == {
        "deny.example.org": "refused", "label.example.org": "changed", "same.example.org": "allowed",
        "bad.example.org": "failed", "effects.example.org": "failed", "warn.example.org": "allowed",
        "gone.example.org": "failed", "never.example.org": "not sent", "wrong.example.org": "failed",
    }  # fmt: skip
    assert found["deny.example.org"].message.endswith("denied the request: too large")
    assert found["label.example.org"].patch == ({"op": "add", "path": "/metadata/labels", "value": {"a": "true"}},)
    assert found["warn.example.org"].warnings == ("old",)
    assert "no such key" in found["wrong.example.org"].message
    assert "does not support dry run" in found["effects.example.org"].message
    assert all("labels" not in call.object["metadata"] for call in server.calls)


async def test_a_patch_that_the_apiserver_refuses_is_a_failure(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": patch({"op": "add", "path": "/data", "value": {"a": 1}})}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    request = review(
        document, dryRun=True, kind={"group": "", "version": "v1", "kind": "ConfigMap"},
        resource={"group": "", "version": "v1", "resource": "configmaps"},
    )  # fmt: skip
    found = await try_all(
        front, [configuration("", "mutating", hook(server, "/p", rules=[rule])), namespace("")], request
    )
    text = "after its patch, the apiserver refuses the object: data.a: must be a string, not the number 1: quote it"
    assert [(one.outcome, one.message) for one in found.values()] == [("failed", text)]


async def test_a_patch_of_a_deletion_is_a_failure(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": label("a")}
    documents = [configuration("", "mutating", hook(server, "/p")), namespace("")]
    found = await try_all(front, documents, review(None, old=widget(), operation="DELETE", dryRun=True))
    (one,) = found.values()
    assert (one.outcome, "attempted to modify the object" in one.message) == ("failed", True)


async def test_the_patch_of_a_secret_is_redacted(front: Front, server: Webhooks) -> None:
    server.answers = {"/p": patch({"op": "add", "path": "/data", "value": {"token": "c2VjcmV0"}}), "/v": allow}
    rule = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    resource = {"group": "", "version": "v1", "resource": "secrets"}
    request = review(secret, kind={"group": "", "version": "v1", "kind": "Secret"}, resource=resource, dryRun=True)
    found = await try_all(
        front, [configuration("", "mutating", hook(server, "/p", rules=rule)), namespace("")], request
    )
    shown = found["w.example.org"]
    assert shown.make_row()["patch"] == [{"op": "add", "path": "/data", "value": REDACTED}]
    assert [*shown.describe()] == ["/data", f"  + {REDACTED}"]
