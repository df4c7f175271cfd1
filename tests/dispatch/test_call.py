"""Webhooks of a review that answer with ``Retry-After``."""

from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from app.api.call_metrics import CallSlots
from app.api.metrics import exposition
from app.dispatch.hooks import Phase
from tests.dispatch.builders import configuration, review, store_of
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Answer, Webhooks, deny, hook

PHASES: tuple[Phase, ...] = ("mutating", "validating")


def busy(times: int, then: Answer, *, seconds: int = 0) -> Answer:
    """Answer 503 so many times."""
    left = [None] * times

    def answer(asked: dict[str, Any]) -> Any:
        if not left:
            return then(asked)
        left.pop()
        return web.Response(status=503, headers={"Retry-After": str(seconds)})

    return answer


@pytest.mark.parametrize("phase", PHASES)
async def test_a_busy_webhook_with_ignore_is_asked_again_and_its_verdict_counts(
    front: Front, server: Webhooks, phase: Phase
) -> None:
    server.answers["/w"] = busy(3, deny("forbidden"))
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy="Ignore")))
    response = (await front.dispatch(store, review(), cluster="ws2", phase=phase)).response
    assert (response.allowed, response.message) == (
        False,
        'admission webhook "w.example.org" denied the request: forbidden',
    )
    uids = {call.review["request"]["uid"] for call in server.calls}
    assert (len(server.calls), len(uids)) == (4, 1), "one request, four times"
    assert [outcome for _, outcome in front.observed] == ["answered"]
    registry = CollectorRegistry()
    registry.register(CallSlots(front.client))
    text = exposition(registry, "")[0].decode()
    assert 'fleethook_webhook_call_retries_total{code="5xx"} 3.0' in text
    assert 'fleethook_webhook_call_retries_total{code="429"} 0.0' in text


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("policy", "seconds", "code"), [("Fail", 30, 500), ("Ignore", 30, 0), ("Ignore", 5, 504)])
async def test_a_webhook_that_is_busy_for_too_long_has_failed_unless_the_caller_was_in_a_hurry(
    front: Front, server: Webhooks, phase: Phase, policy: str, seconds: int, code: int
) -> None:
    """A caller must not get past a webhook that would have been asked again in its own ten seconds."""
    server.answers["/w"] = busy(9, deny("forbidden"), seconds=8 if seconds == 5 else 10)
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy=policy)))
    response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=seconds)).response
    assert (response.allowed, response.code if code else 0) == (code == 0, code)
    assert len(server.calls) == 1
    assert [outcome for _, outcome in front.observed] == ["failed"]
