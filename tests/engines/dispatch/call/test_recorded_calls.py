"""The dispatcher returns the answers from outside on which an answer depended."""

import msgspec
from aiohttp import web

from fleethook.engines.dispatch.call.recorded_calls import decode_response, encode_failure
from fleethook.engines.dispatch.call.review_response_and_patch import WebhookResponse
from fleethook.engines.dispatch.errors_and_deadline import too_many_requests
from fleethook.model.admission import Status
from tests.engines.dispatch.builders import review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, convert, converting

CONVERT = convert(lambda one: {**one, "spec": {"measure": 1}})


async def test_nothing_is_collected_unless_it_is_asked_for(front: Front, server: Webhooks) -> None:
    server.answers.update({"/w": allow, "/convert": CONVERT})
    found = await front.dispatch(store_of(*converting(server)), review(), cluster="ws1")
    assert found.response.allowed
    assert tuple(found.calls) == ()


async def test_answers_of_conversion_webhooks_are_collected(front: Front, server: Webhooks) -> None:
    server.answers.update({"/w": allow, "/convert": CONVERT})
    found = await front.dispatch(store_of(*converting(server)), review(widget(size=1)), cluster="ws1", traces=True)
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
    found = await front.dispatch(store_of(*converting(server)), review(), cluster="ws1", traces=True)
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
