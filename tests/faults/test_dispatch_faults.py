"""Faulty webhooks in dispatch: status and text equal an apiserver's, and the next request is not affected."""

import base64
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from fleethook.outbound.calls_and_retries import HookClient
from tests.engines.dispatch.builders import configuration, review, store_of, webhook, widget
from tests.engines.dispatch.conftest import Front
from tests.hook_server import HookRequest, RawHook, Responder, http, respond, respond_and_close

PHASES: tuple[Phase, ...] = ("mutating", "validating")
SHORT = 0.5
LONG = 30.0
ZEROS = gzip.compress(b"0" * (64 << 20), mtime=0)


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with HookClient(allow_private=True) as client:
        yield Front(client)


def respond_with(change: Callable[[dict[str, Any]], None] = lambda _: None, **response: Any) -> Responder:
    """Answer with the uid of the request; ``change`` breaks the answer."""

    async def answer(asked: HookRequest, writer: Any) -> None:
        asked_for = json.loads(asked.body)
        made = {
            "apiVersion": asked_for["apiVersion"], "kind": "AdmissionReview",
            "response": {"uid": asked_for["request"]["uid"], "allowed": True, **response},
        }  # fmt: skip
        change(made)
        writer.write(http(json.dumps(made).encode()))
        await writer.drain()

    return answer


def respond_with_patch(*operations: Any, **response: Any) -> Responder:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return respond_with(**{"patch": text, "patchType": "JSONPatch", **response})


def respond_with_raw_patch(text: bytes) -> Responder:
    return respond_with(patch=base64.b64encode(text).decode(), patchType="JSONPatch")


async def hangs(_: HookRequest, __: Any) -> None:
    return


async def resets(_: HookRequest, writer: Any) -> None:
    writer.transport.abort()


def another_uid(made: dict[str, Any]) -> None:
    made["response"]["uid"] = "another"


def no_response(made: dict[str, Any]) -> None:
    del made["response"]


def another_kind(made: dict[str, Any]) -> None:
    made["kind"] = "AdmissionAnswer"


# The fault, a regular expression for the reason, seconds for the request, phases in which it is a fault.
CALLING: list[Any] = [
    pytest.param(hangs, r'failed to call webhook: Post "https://.*\?timeout=1s": context deadline exceeded', SHORT, PHASES, id="hangs"),
    pytest.param(resets, r'failed to call webhook: Post "https://.*": ', LONG, PHASES, id="resets"),
    pytest.param(respond_and_close(b"SSH-2.0-x\r\n"), r'failed to call webhook: Post "https://.*": ', LONG, PHASES, id="another protocol"),
    pytest.param(respond(http(b"<html>")), r"received invalid webhook response: not an AdmissionReview: ", LONG, PHASES, id="200 with garbage"),
    pytest.param(respond(http(b"[" * 5000)), r"received invalid webhook response: not an AdmissionReview: ", LONG, PHASES, id="nested garbage"),
    pytest.param(respond(http(b"")), r"failed to call webhook: 0-length response with status code: 200", LONG, PHASES, id="nothing"),
    pytest.param(respond(http(b"sorry", status="500 x")), r'failed to call webhook: an error on the server \("sorry"\) has prevented the request from succeeding', LONG, PHASES, id="500"),
    pytest.param(respond(http(b"", status="404 x")), r"failed to call webhook: the server could not find the requested resource", LONG, PHASES, id="404"),
    pytest.param(respond_with(another_uid), r'received invalid webhook response: expected response\.uid="[-0-9a-f]{36}", got "another"', LONG, PHASES, id="another uid"),
    pytest.param(respond_with(no_response), r"received invalid webhook response: webhook response was absent", LONG, PHASES, id="no response"),
    pytest.param(respond_with(another_kind), r"received invalid webhook response: expected webhook response of admission\.k8s\.io/v1, Kind=AdmissionReview, got admission\.k8s\.io/v1, Kind=AdmissionAnswer", LONG, PHASES, id="another kind"),
    pytest.param(respond_with(allowed="yes"), r"received invalid webhook response: not an AdmissionReview: Expected `bool", LONG, PHASES, id="allowed is text"),
    pytest.param(respond(http(b"{", content_length=str(2 << 30))), r"failed to call webhook: .*8,388,608 bytes", LONG, PHASES, id="2 GB"),
    pytest.param(respond(http(ZEROS, content_encoding="gzip")), r"failed to call webhook: .*8,388,608 bytes", LONG, PHASES, id="a gzip bomb"),
    pytest.param(respond(http(b"", status="307 x", location="https://169.254.169.254/latest/meta-data")), r"failed to call webhook: .*redirect to https://169\.254\.169\.254 refused", LONG, PHASES, id="a redirect to metadata"),
    pytest.param(respond_with_raw_patch(b'[{"op": "add", "CORRUPTED_KEY":}]'), r"received undecodable patch in webhook response: invalid character", LONG, ("mutating",), id="a patch that is no JSON"),
    pytest.param(respond_with_raw_patch(b'{"op": "add"}'), r"received undecodable patch in webhook response: not an array of operations", LONG, ("mutating",), id="a patch that is no list"),
    pytest.param(respond_with(patch="%%%", patchType="JSONPatch"), r"received invalid webhook response: response\.patch is not base64", LONG, ("mutating",), id="a patch that is not base64"),
    pytest.param(respond_with_patch({"op": "test", "path": "/kind"}, patchType="MergePatch"), r'unsupported patch type "MergePatch"', LONG, ("mutating",), id="another type of patch"),
    pytest.param(respond_with_patch({"op": "test", "path": "/kind"}), r"received invalid webhook response: validating webhook may not return response\.patch", LONG, ("validating",), id="a patch while validating"),
]  # fmt: skip


IN_PHASES = [
    pytest.param(phase, *fault.values[:3], id=f"{fault.id}, {phase}") for fault in CALLING for phase in fault.values[3]
]


def store(hook: RawHook, phase: Phase, **members: Any) -> Store:
    config = {"url": hook.url, "caBundle": hook.ca_bundle}
    return store_of(configuration("ws1", phase, webhook(clientConfig=config, **members)))


async def check_next_call(front: Front, hook: RawHook, phase: Phase) -> None:
    """Check that the next request gets its normal answer."""
    hook.answer = (
        respond_with_patch({"op": "add", "path": "/spec/fine", "value": True})
        if phase == "mutating"
        else respond_with()
    )
    found = await front.dispatch(store(hook, phase), review(), cluster="ws1", phase=phase)
    assert found.response.allowed
    patch = [{"op": "add", "path": "/spec/fine", "value": True}] if phase == "mutating" else []
    assert list(found.response.patch) == patch


@pytest.mark.parametrize(("phase", "answer", "reason", "seconds"), IN_PHASES)
async def test_a_failed_call_refuses_the_request(
    front: Front, hook: RawHook, phase: Phase, answer: Any, reason: str, seconds: float
) -> None:
    hook.answer = answer
    found = await front.dispatch(store(hook, phase), review(), cluster="ws1", phase=phase, seconds=seconds)
    response = found.response
    assert (response.allowed, response.code, response.reason) == (False, 500, "InternalError")
    expected = rf'Internal error occurred: failed calling webhook "w\.example\.org": {reason}'
    assert re.match(expected, response.message), response.message
    assert not response.patch
    await check_next_call(front, hook, phase)


@pytest.mark.parametrize(("phase", "answer", "reason", "seconds"), IN_PHASES)
async def test_a_failed_call_is_ignored_with_failure_policy_ignore(
    front: Front, hook: RawHook, phase: Phase, answer: Any, reason: str, seconds: float
) -> None:
    hook.answer = answer
    timeout = 1 if seconds == SHORT else 30
    made = store(hook, phase, failurePolicy="Ignore", timeoutSeconds=timeout)
    response = (await front.dispatch(made, review(), cluster="ws1", phase=phase, seconds=LONG)).response
    assert (response.allowed, list(response.patch)) == (True, [])
    prefix = "mutation" if phase == "mutating" else "validating"
    assert (
        response.audit_annotations[f"failed-open.{prefix}.webhook.admission.k8s.io/round_0_index_0"] == "w.example.org"
    )
    await check_next_call(front, hook, phase)


# These are errors of the patch, not of the call, so failurePolicy does not apply.
PATCHES: list[Any] = [
    pytest.param(({"op": "remove", "path": "/spec/missing"},), "Unable to remove nonexistent key: missing", id="does not apply"),
    pytest.param(({"op": "bogus", "path": "/spec"},), "Unexpected kind: bogus", id="unknown operation"),
    pytest.param(({"op": "replace", "path": "", "value": []},), "replaces the object by another JSON type", id="no object left"),
    pytest.param(({"op": "add", "path": "/a/b", "value": 1},), "doc is missing path", id="no parent"),
]  # fmt: skip


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(("operations", "text"), PATCHES)
async def test_a_patch_that_does_not_apply_refuses_the_request_under_any_policy(
    front: Front, hook: RawHook, operations: Any, text: str, policy: str
) -> None:
    hook.answer = respond_with_patch(*operations)
    found = await front.dispatch(
        store(hook, "mutating", failurePolicy=policy), review(widget(size=1)), cluster="ws1", phase="mutating"
    )
    response = found.response
    assert (response.allowed, response.code, response.reason) == (False, 500, "InternalError")
    assert response.message.startswith('Internal error occurred: the patch of admission webhook "w.example.org"')
    assert text in response.message
    await check_next_call(front, hook, "mutating")


async def test_no_text_contains_data_of_a_refused_request(front: Front, hook: RawHook) -> None:
    hook.answer = respond_with_patch({"op": "remove", "path": "/data/missing"})
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}]
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"password": "aHVudGVyMg=="},
    }  # fmt: skip
    found = await front.dispatch(store(hook, "mutating", rules=rules), review(secret), cluster="ws1", phase="mutating")
    assert not found.response.allowed
    assert "aHVudGVyMg" not in str(found.response)


async def test_private_addresses_are_refused_for_logical_clusters_if_configured(hook: RawHook) -> None:
    async with HookClient(allow_private=False) as client:
        found = await Front(client).dispatch(store(hook, "validating"), review(), cluster="ws1")
    assert found.response.code == 500
    assert "is a private address" in found.response.message
    assert hook.connections == 0
