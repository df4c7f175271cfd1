import json
import time
from typing import Any

import msgspec
import pytest

from fleethook.cli.options import Output
from fleethook.engines.dispatch.call.call import Deadline
from fleethook.engines.dispatch.commands.webhook_trials import (
    MAX_SHOWN,
    REDACTED,
    Trial,
    TriedWebhook,
    print_results,
    try_webhooks,
)
from fleethook.engines.dispatch.review.request_plan import InputDocument, PlannedRequest
from tests.engines.dispatch.builders import configuration, namespace, request_of, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, hook, label, patch
from tests.waiting import NET


async def try_all(front: Front, documents: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Trial]:
    dispatcher = front.dispatcher(store_of(*documents))
    deadline = Deadline(time.monotonic() + NET)
    sent = request_of(request)
    planned = PlannedRequest(sent, sent, "", InputDocument(request, "f:1", ""))
    return {one.webhook: one async for one in try_webhooks(dispatcher, planned, deadline)}


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
    assert found["w.example.org"].patch == ({"op": "add", "path": "/data", "value": REDACTED},)


def tried(name: str, outcome: Any, cluster: str = "", **members: Any) -> TriedWebhook:
    request = request_of(review(widget(name)))
    planned = PlannedRequest(request, request, cluster, InputDocument(widget(name), "f:1", cluster))
    return TriedWebhook(planned, Trial("mutating", "c", "w", outcome, **members))


def test_long_values_are_cut_and_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "x" * 200}
    operations = ({"op": "add", "path": "/spec/a", "value": value}, {"op": "copy", "from": "/a", "path": "/b"})
    print_results(
        [tried("a", "changed", patch=operations), tried("b", "refused", "ws", message="no\x1b[31m"),
         tried("c", "allowed", warnings=("old\n",)), tried("d", "allowed", warnings=("old\n",))],
        Output.TEXT, verbose=False,
    )  # fmt: skip
    cut = f"{json.dumps(value)[:80]}…"
    assert capsys.readouterr().out.splitlines() == [
        "changed  CREATE Widget default/a, c/w", f"         add /spec/a: {cut}", "         copy /b from /a",
        "refused  CREATE Widget default/b in ws, c/w", "         no\\x1b[31m",
        "warning  c/w: old\\n (reviews: 2)", "c/w: 2 allowed, 1 changed, 1 refused",
    ]  # fmt: skip


def test_many_outcomes_of_a_kind_are_counted_unless_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    many = [tried(str(number), "refused", message="no") for number in range(MAX_SHOWN + 2)]
    print_results(many, Output.TEXT, verbose=False)
    out = capsys.readouterr().out
    assert (out.count("refused  CREATE"), "c/w: 2 more refused (--verbose prints them)" in out) == (MAX_SHOWN, True)
    print_results([*many, tried("last", "allowed")], Output.TEXT, verbose=True)
    out = capsys.readouterr().out
    assert (out.count("refused  CREATE"), "allowed  CREATE Widget default/last, c/w" in out) == (MAX_SHOWN + 2, True)


def test_a_request_that_is_refused_before_any_webhook_has_no_webhook(capsys: pytest.CaptureFixture[str]) -> None:
    unclear = tried("a", "failed", message="no owner")
    unclear = unclear._replace(trial=msgspec.structs.replace(unclear.trial, configuration="", webhook=""))
    print_results([unclear], Output.TEXT, verbose=False)
    assert capsys.readouterr().out.splitlines()[-1] == "requests: 1 failed"
