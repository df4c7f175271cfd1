"""A request beyond a limit is refused with the name of the limit."""

from typing import Any

import pytest

from fleethook.engines.dispatch.dispatcher import DispatchResult
from fleethook.engines.dispatch.hooks.hooks import Phase
from fleethook.engines.dispatch.request_limits import RequestLimits
from tests.engines.dispatch.access_reviews import Apiserver, authorizer_hook
from tests.engines.dispatch.builders import configuration, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, hook, label

PHASES: tuple[Phase, ...] = ("mutating", "validating")


POLICIES = ("Fail", "Ignore")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("phase", PHASES)
async def test_too_many_webhooks_refuse_the_request(front: Front, server: Webhooks, phase: Phase, policy: str) -> None:
    server.answers["/w"] = allow
    limits = RequestLimits(webhooks=3)
    for count, allowed in ((3, True), (4, False)):
        server.calls.clear()
        hooks = [hook(server, "/w", f"w{number}.example.org", failurePolicy=policy) for number in range(count)]
        store = store_of(configuration("ws2", phase, *hooks))
        response = (await front.dispatch(store, review(), cluster="ws2", phase=phase, limits=limits)).response
        assert response.allowed is allowed
    assert (response.code, response.message) == (
        403,
        ('widgets.example.org "b" is forbidden: it matches more than 3 webhooks, the limit of one request'),
    )
    assert len(server.calls) == (0 if phase == "validating" else 3)


async def test_reinvocations_count_as_calls(front: Front, server: Webhooks) -> None:
    server.answers["/first"] = label("seen")
    server.answers["/second"] = label("changed")
    hooks = (
        hook(server, "/first", "first.example.org", reinvocationPolicy="IfNeeded"),
        hook(server, "/second", "second.example.org"),
    )
    store = store_of(configuration("ws2", "mutating", *hooks))
    for limit, allowed in ((3, True), (2, False)):
        limits = RequestLimits(webhooks=limit)
        found = await front.dispatch(store, review(), cluster="ws2", phase="mutating", limits=limits)
        assert found.response.allowed is allowed


async def dispatch(front: Front, apiserver: Apiserver, *hooks: Any, **rest: Any) -> DispatchResult:
    store = store_of(configuration("ws2", "validating", *hooks))
    return await front.dispatch(store, review(), cluster="ws2", post=apiserver.post, live=apiserver, **rest)


@pytest.mark.parametrize("policy", POLICIES)
async def test_too_many_access_reviews_refuse_the_request(front: Front, server: Webhooks, policy: str) -> None:
    server.answers["/w"] = allow
    hooks = [authorizer_hook(server, number, 2, policy) for number in range(32)]
    apiserver = Apiserver()
    assert (await dispatch(front, apiserver, *hooks)).response.allowed
    assert len(apiserver.asked) == 64
    assert apiserver.most <= 8
    server.calls.clear()
    found = await dispatch(front, apiserver, *hooks, authorizer_hook(server, 32, 2, policy))
    assert (found.response.allowed, found.response.code) == (False, 403)
    assert found.response.message == (
        'widgets.example.org "b" is forbidden: its matchConditions ask the authorizer more than 64 questions, the limit '
        "of one request (setting dispatch_request_access_reviews)"
    )
    assert len(apiserver.asked) == 128
    assert server.calls == []
