"""Opens the circuit breaker of a webhook."""

from typing import Any

import pytest

from fleethook.outbound.call_limits import MAX_FAILURES
from fleethook.outbound.client import CallError, Parties
from tests.engines.dispatch.builders import binding, configuration, export, request_of, review, store_of
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, hook


def shared(server: Webhooks, **members: Any) -> Any:
    hooks = [hook(server, "/w", timeoutSeconds=30, **members)]
    bindings = [binding(cluster, "ws1", "widgets.example.org") for cluster in ("ws2", "ws3")]
    return store_of(export("ws1", "widgets.example.org"), configuration("ws1", "validating", *hooks), *bindings)


async def open_breaker(front: Front, server: Webhooks, policy: str) -> None:
    """Open the breaker by calls without an answer; dispatching would allow each of them a second."""
    store, consumer = shared(server, failurePolicy=policy), Parties("ws1", "ws2")
    server.hold.clear()
    (found,) = (
        await front.dispatcher(store).find_target(request_of(review()), cluster="ws2", phase="validating")
    ).relevant
    assert found.hook.endpoint
    for _ in range(MAX_FAILURES):
        with pytest.raises(CallError):
            await front.client.post(found.hook.endpoint, b"{}", seconds=0.05, parties=consumer)
    assert front.client.is_silent(found.hook.endpoint, consumer)
    server.hold.set()
