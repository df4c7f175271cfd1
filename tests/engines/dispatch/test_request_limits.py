"""A request beyond a limit is refused with the name of the limit."""

import pytest

from fleethook.engines.dispatch.hooks.hooks import Phase
from fleethook.engines.dispatch.request_limits import RequestLimits
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
