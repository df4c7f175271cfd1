"""The records of answered reviews: bodies, clusters, and the calls that an answer depended on."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.engines.dispatch.call.recorded_calls import decode_failure, decode_response
from fleethook.engines.dispatch.errors_and_deadline import (
    CallingError,
    StatusError,
    denial,
    internal,
    refusal,
    too_many_requests,
)
from fleethook.model.admission import Response, Status, allowed, denied, errored, invalid, patched
from fleethook.server.reviews.records_and_traces import find_outcome
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.builders import entry, image, overrider, yurt_app_set
from tests.engines.dispatch.builders import configuration, definition, namespace, webhook
from tests.engines.dispatch.builders import review as dispatched
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, patch, webhooks
from tests.engines.interpret.lua.customization_objects import customization
from tests.engines.interpret.webhooks.test_webhook_layer import FOO, make_configuration
from tests.hook_server import Hook, run_hook
from tests.server.direct_connections import MUTATE, Wire, encode, long_review, review
from tests.server.kept_reviews import KeptReviews

CLUSTER_MUTATE = "/clusters/ws1/mutate"


def make_app(records: KeptReviews, **settings: Any) -> Fleethook:
    made = create_app(Settings(body_limit=200_000, **settings), log=None, record=records)
    for document in (yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:2.0")]))):
        made.store.put(document)
    return made


@pytest.fixture
def records() -> KeptReviews:
    return KeptReviews()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        yield made


@pytest.fixture
async def app(records: KeptReviews) -> AsyncIterator[Fleethook]:
    made = make_app(records)
    async with made.router.lifespan_context(made):
        yield made


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("body", [review(), long_review(30_000), long_review(60_000)])
def test_both_paths_record_the_bodies_as_received_and_sent(*, direct: bool, body: bytes) -> None:
    records = KeptReviews()

    async def ask() -> bytes:
        wire = Wire(make_app(records), direct=direct)
        await wire.read(encode(body, path=f"{MUTATE}?timeout=10s"))
        while not records:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        return (await wire.end()).received

    received = asyncio.run(ask())
    (record,) = records
    assert record.body == body
    assert received.endswith(b"\r\n\r\n" + record.answer)
    assert record[1:5] == (MUTATE, MUTATE.encode(), b"timeout=10s", "")
    assert (record.status, record.uid, record.calls, record.caller) == (200, json.loads(body)["request"]["uid"], (), {})
    assert 0.0 < record.seconds < 300.0


async def test_a_review_that_cannot_be_read_is_recorded_with_its_status(app: Fleethook, records: KeptReviews) -> None:
    answer = await call(app, MUTATE, b"{")
    assert answer.status == 400
    (record,) = records
    assert (record.status, record.uid, record.body, record.answer) == (400, "", b"{", answer.body)


async def test_requests_that_are_no_reviews_are_not_recorded(app: Fleethook, records: KeptReviews) -> None:
    await call(app, "/healthz", b"", method="GET")
    await call(app, MUTATE, b"", method="GET")
    await call(app, MUTATE, b" " * 300_000)
    assert records == []


async def test_callers_without_rights_are_not_recorded(records: KeptReviews) -> None:
    made = make_app(records, dispatch_open="never")
    answer = await call(made, CLUSTER_MUTATE, json.dumps(dispatched()).encode())
    assert (answer.status, records) == (401, [])


async def test_the_cluster_of_an_object_is_recorded(app: Fleethook, records: KeptReviews) -> None:
    document = json.loads(review())
    document["request"]["object"]["metadata"].setdefault("annotations", {})["kcp.io/cluster"] = "ws9"
    await call(app, MUTATE, json.dumps(document).encode())
    assert records[0].cluster == "ws9"


async def test_the_path_of_a_cluster_is_recorded_as_requested(app: Fleethook, records: KeptReviews) -> None:
    await call(app, CLUSTER_MUTATE, json.dumps(dispatched()).encode())
    (record,) = records
    assert (record.route, record.path, record.cluster) == ("/clusters/{cluster}/mutate", CLUSTER_MUTATE.encode(), "ws1")


def put_hooks(app: Fleethook, *hooks: dict[str, Any], phase: str = "mutating") -> None:
    app.store.put(definition("ws1", "widgets.example.org", "v1"))
    app.store.put(namespace("ws1", of="a"))
    app.store.put(configuration("ws1", phase, *hooks))


async def test_answers_of_webhooks_are_recorded(app: Fleethook, server: Webhooks, records: KeptReviews) -> None:
    hook = webhook(clientConfig=server.client_config("/w"), namespaceSelector={"matchLabels": {"of": "a"}})
    put_hooks(app, hook)
    server.answers["/w"] = patch({"op": "add", "path": "/spec/made", "value": True})
    await call(app, CLUSTER_MUTATE, json.dumps(dispatched()).encode())
    ((found, made),) = [record.calls for record in records]
    assert found[:5] == ("read", "Namespace", "default", "", "ws1")
    assert found.answer == {"labels": {"of": "a", "kubernetes.io/metadata.name": "default"}}
    assert made[:5] == ("webhook", "w.example.org", "mutating/hooks/w.example.org/0", "hooks", "ws1")
    response = decode_response(made.answer)
    assert json.loads(response.patch) == [{"op": "add", "path": "/spec/made", "value": True}]
    assert json.loads(base64.b64decode(made.answer["patch"])) == json.loads(response.patch)


async def test_refusals_and_failures_of_webhooks_are_recorded(
    app: Fleethook, server: Webhooks, records: KeptReviews
) -> None:
    hooks = [
        webhook(name, clientConfig=server.client_config(f"/{name[0]}"), failurePolicy="Ignore")
        for name in ("a.example.org", "b.example.org", "c.example.org")
    ]
    put_hooks(app, *hooks, phase="validating")
    server.answers["/a"] = allow
    server.answers["/b"] = deny("too large", code=403, reason="Forbidden")
    answer = await call(app, "/clusters/ws1/validate", json.dumps(dispatched()).encode())
    assert not answer.json()["response"]["allowed"]
    calls = {one.name: one for one in records[0].calls if one.kind == "webhook"}
    assert decode_response(calls["a.example.org"].answer).allowed
    refused = decode_response(calls["b.example.org"].answer)
    assert refused.status is not None
    assert (refused.allowed, refused.status.message) == (False, "too large")
    failed = calls["c.example.org"]
    assert failed.answer is None
    assert failed.failure is not None
    again = decode_failure(failed.name, failed.failure)
    assert isinstance(again, CallingError)
    assert (str(again), again.cut_short) == (failed.error, False)


def test_the_status_of_a_refusal_is_kept() -> None:
    error = StatusError(429, "TooManyRequests", "later")
    status = {"status": "Failure", "message": "later", "reason": "TooManyRequests", "code": 429}
    again = decode_failure("x", {"status": status})
    assert isinstance(again, StatusError)
    assert again.status == error.status
    assert str(again) == "later"


@pytest.mark.parametrize("members", [{}, {"allowed": True, "patch": "%"}, {"allowed": True, "status": 1}])
def test_another_answer_is_none_of_a_webhook(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not the answer of a webhook|Only base64 data|Incorrect padding"):
        decode_response(members)


async def test_a_request_beyond_the_quota_says_so(records: KeptReviews) -> None:
    made = make_app(records, max_connections=2)
    with made.engines["dispatch"].requests.hold("ws1"):
        await call(made, CLUSTER_MUTATE, json.dumps(dispatched()).encode())
    ((refused,),) = [record.calls for record in records]
    assert refused[:2] == ("read", "RequestQuota")
    assert "is its share of max_connections" in refused.error


def question(operation: str, api_version: str = "example.com/v1") -> bytes:
    document = {**FOO, "apiVersion": api_version}
    request = {"uid": "u-1", "operation": operation, "name": "a", "object": document}
    asked = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview", "request": request}
    return json.dumps(asked).encode()


async def test_answers_of_scripts_are_recorded(app: Fleethook, records: KeptReviews) -> None:
    script = "function InterpretHealth(desiredObj) return desiredObj.spec.size == 1 end"
    app.store.put(customization("c", healthInterpretation=script))
    answer = await call(app, "/explore", question("ExploreHealthy"))
    assert answer.json()["response"]["healthy"] is True
    ((made,),) = [record.calls for record in records]
    assert (made.kind, made.name, made.answer, made.error) == ("script", "InterpretHealth", {"healthy": True}, "")
    assert made.key.startswith("InterpretHealth/ResourceInterpreterCustomization ")
    assert len(made.digest) == 64


async def test_errors_of_scripts_are_recorded(app: Fleethook, records: KeptReviews) -> None:
    script = "function InterpretHealth(desiredObj) error('no') end"
    app.store.put(customization("c", healthInterpretation=script))
    await call(app, "/explore", question("ExploreHealthy"))
    ((made,),) = [record.calls for record in records]
    assert made.answer is None
    assert "no" in made.error
    assert made.failure is not None
    assert made.failure["ignored"] is False


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    async with run_hook(tmp_path) as running:
        yield running


async def test_answers_of_interpreter_webhooks_are_recorded(app: Fleethook, hook: Hook, records: KeptReviews) -> None:
    app.store.put(make_configuration(hook))
    answer = await call(app, "/explore", question("ExploreHealthy", FOO["apiVersion"]))
    ((made,),) = [record.calls for record in records]
    assert made[:4] == (
        "webhook",
        "foo.example.com",
        "InterpretHealth/config-foo.example.com/foo.example.com",
        "config-foo.example.com",
    )
    assert (made.error == "") == ("healthy" in answer.json()["response"])


async def test_calls_are_not_collected_without_a_recorder() -> None:
    made = create_app(Settings(), log=None)
    assert not made.engines["interpret"].chain._traces


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (allowed(), "allowed"),
        (patched([{"op": "remove", "path": "/spec"}]), "patched"),
        (denied("no"), "denied"),
        (invalid("no", ()), "denied"),
        (errored("no object"), "errored"),
        (errored("defect", code=500, reason="InternalError"), "errored"),
        (refusal(denial("w.example.org", Status(code=400, reason="BadRequest"))), "denied"),
        (refusal(too_many_requests("later")), "denied"),
        (refusal(internal("webhook is down")), "errored"),
    ],
)
def test_rules_and_webhooks_deny_and_everything_else_is_an_error(response: Response, outcome: str) -> None:
    assert find_outcome(response) == outcome
