"""The dispatcher returns the answers from outside on which an answer depended."""

from typing import Any

import msgspec
from aiohttp import web

from fleethook.engines.dispatch.call.admission_review import WebhookResponse
from fleethook.engines.dispatch.call.call_trace import decode_response, encode_failure
from fleethook.engines.dispatch.dispatch_errors import too_many_requests
from fleethook.model.admission import Status
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook


def convert(asked: Any) -> Any:
    request = asked["request"]
    objects = [
        {**one, "apiVersion": request["desiredAPIVersion"], "spec": {"measure": 1}} for one in request["objects"]
    ]
    return web.json_response(
        {
            "apiVersion": asked["apiVersion"], "kind": "ConversionReview",
            "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
        }
    )  # fmt: skip


def converting(server: Webhooks) -> Any:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]},
    }
    return store_of(
        definition("ws1", "widgets.example.org", "v1", "v2", conversion=conversion),
        configuration("ws1", "validating", hook(server, "/w", rules=[{**WIDGETS, "apiVersions": ["v2"]}])),
    )


async def test_nothing_is_collected_unless_it_is_asked_for(front: Front, server: Webhooks) -> None:
    server.answers.update({"/w": allow, "/convert": convert})
    found = await front.dispatch(converting(server), review(), cluster="ws1")
    assert found.response.allowed
    assert tuple(found.calls) == ()


async def test_answers_of_conversion_webhooks_are_collected(front: Front, server: Webhooks) -> None:
    server.answers.update({"/w": allow, "/convert": convert})
    found = await front.dispatch(converting(server), review(widget(size=1)), cluster="ws1", traces=True)
    converted, called = found.calls
    assert (converted.kind, converted.key, converted.cluster) == (
        "webhook",
        "convert/example.org/v1/Widget/example.org/v2",
        "ws1",
    )
    assert (converted.answer["apiVersion"], converted.answer["spec"]) == ("example.org/v2", {"measure": 1})
    assert decode_response(called.answer).allowed


async def test_errors_of_conversion_webhooks_are_collected(front: Front, server: Webhooks) -> None:
    server.answers["/convert"] = lambda _: web.Response(status=503)
    found = await front.dispatch(converting(server), review(), cluster="ws1", traces=True)
    (converted,) = found.calls
    assert converted.answer is None
    assert "conversion webhook for Widget failed" in converted.error


def test_responses_of_webhooks_survive_the_way_through_json() -> None:
    response = WebhookResponse(
        allowed=False,
        patch=b"[]",
        patch_type="JSONPatch",
        status=Status(status="Failure", message="no", reason="Invalid", code=422),
        warnings=("a", "b"),
        audit_annotations={"k": "v"},
    )
    assert decode_response(msgspec.to_builtins(response)) == response
    assert msgspec.to_builtins(WebhookResponse(allowed=True)) == {"allowed": True}
    assert decode_response({"allowed": True}) == WebhookResponse(allowed=True)


def test_the_status_of_a_refusal_is_json() -> None:
    assert encode_failure(too_many_requests("later")) == {
        "status": {"status": "Failure", "message": "later", "reason": "TooManyRequests", "code": 429}
    }
