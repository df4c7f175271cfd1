"""Calls of one webhook: timeouts, dry runs, Retry-After, endpoints."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.review.dispatch_metrics import CallMetrics
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase, compile_webhooks
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.server.metrics import exposition
from tests.engines.dispatch.builders import configuration, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Answer, Webhooks, deny, hook
from tests.waiting import NET, until

PHASES: tuple[Phase, ...] = ("mutating", "validating")


def busy(times: int, then: Answer, *, seconds: int = 0) -> Answer:
    """Return an answer that sends 503 a number of times, and then another answer."""
    left = [None] * times

    def answer(asked: dict[str, Any]) -> Any:
        if not left:
            return then(asked)
        left.pop()
        return web.Response(status=503, headers={"Retry-After": str(seconds)})

    return answer


@pytest.mark.parametrize("phase", PHASES)
async def test_retry_after_repeats_the_call_even_with_ignore(front: Front, server: Webhooks, phase: Phase) -> None:
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
    registry.register(CallMetrics(front.client))
    text = exposition(registry, "")[0].decode()
    assert 'fleethook_webhook_call_retries_total{code="5xx"} 3.0' in text
    assert 'fleethook_webhook_call_retries_total{code="429"} 0.0' in text


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("policy", "seconds", "code"), [("Fail", 30, 500), ("Ignore", 30, 0), ("Ignore", 5, 504)])
async def test_a_long_retry_after_fails_the_call_or_times_out(
    front: Front, server: Webhooks, phase: Phase, policy: str, seconds: int, code: int
) -> None:
    """A short deadline must not bypass a webhook that would be called again within its own ten seconds."""
    server.answers["/w"] = busy(9, deny("forbidden"), seconds=8 if seconds == 5 else 10)
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy=policy)))
    response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=seconds)).response
    assert (response.allowed, response.code if code else 0) == (code == 0, code)
    assert len(server.calls) == 1
    assert [outcome for _, outcome in front.observed] == ["failed"]


async def test_services_of_logical_clusters_cannot_be_called(front: Front, server: Webhooks) -> None:
    service = {"service": {"name": "hook", "namespace": "default", "path": "/w"}}
    store = store_of(configuration("ws1", "validating", hook(server, "/w", clientConfig=service)))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.code == 500
    assert response.message == (
        'Internal error occurred: failed calling webhook "w.example.org": could not get REST client: '
        "clientConfig.service cannot be resolved for the logical cluster ws1: give a url"
    )


POLICIES = ("Fail", "Ignore")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("phase", PHASES)
async def test_the_limit_of_calls_refuses_the_request_even_with_ignore(
    server: Webhooks, phase: Phase, policy: str
) -> None:
    server.answers["/w"] = deny("the webhook's own verdict")
    server.hold.clear()
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy=policy)))
    async with HookClient(allow_private=True, max_calls=1) as client:
        front = Front(client)
        first = asyncio.create_task(front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=NET))
        await until(lambda: server.calls)
        response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=0.2)).response
        assert (response.allowed, response.code, response.reason) == (False, 429, "TooManyRequests")
        assert response.message == (
            'admission webhook "w.example.org" was not called: failed to call webhook: '
            f'Post "https://127.0.0.1:{server.port}/w?timeout=1s": 1 of at most 1 calls are in flight, 1 of them for '
            "logical cluster 'ws2'; try again later"
        )
        server.hold.set()
        assert "the webhook's own verdict" in (await first).response.message


@pytest.mark.parametrize("phase", PHASES)
async def test_a_short_deadline_does_not_bypass_webhooks_with_ignore(
    front: Front, server: Webhooks, phase: Phase
) -> None:
    server.answers["/w"] = deny("too late")
    server.hold.clear()
    store = store_of(configuration("ws2", phase, hook(server, "/w", failurePolicy="Ignore")))
    # With a stopped clock the request never expires: the deadline cuts the call short.
    found = await front.dispatch(store, review(), cluster="ws2", phase=phase, seconds=0.1, clock=lambda: 0.0)
    assert (found.response.allowed, found.response.code, found.response.reason) == (False, 504, "Timeout")
    server.hold.set()


async def test_a_webhook_that_breaks_connections_has_one_line_in_the_log(
    front: Front, server: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {**hook(server, "/w", failurePolicy="Ignore")}
    broken["clientConfig"] = {**broken["clientConfig"], "url": "https://127.0.0.1:1/w"}
    store = store_of(configuration("ws2", "validating", broken))
    for _ in range(3):
        assert (await front.dispatch(store, review(), cluster="ws2", phase="validating")).response.allowed
    (line,) = (
        one.getMessage() for one in caplog.records if one.name == "fleethook.outbound.call_errors_and_failure_log"
    )
    assert line.startswith(
        'webhook "w.example.org" of logical cluster ws2 breaks its connections: Post "https://127.0.0.1:1/w'
    )
    assert line.endswith("connect: connection refused")


def audited_hook(name: Any = "w.example.org") -> Any:
    (made,) = compile_webhooks("validating", "c", {"metadata": {"name": "config"}, "webhooks": [{"name": name}]})
    return made


@pytest.mark.parametrize(
    ("name", "key", "kept"),
    [
        ("w.example.org", "decision", True),
        ("w.example.org", "with space", False),
        ("w.example.org", "a/b", False),
        ("w.example.org", "x" * 64, False),
        ("Upper.example.org", "decision", False),
        ("", "decision", False),
    ],
)
def test_audit_annotations_must_be_qualified_names(name: Any, key: Any, kept: Any) -> None:
    audit = Audit()
    audit.record_annotations(audited_hook(name), {key: "v"})
    assert audit.annotations == ({f"{name}/{key}": "v"} if kept else {})
