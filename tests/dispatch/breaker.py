"""Opens the circuit breaker of a webhook."""

from typing import Any

from app.outbound.breaker import MAX_FAILURES
from app.outbound.client import Parties
from tests.dispatch.builders import (
    binding,
    configuration,
    export,
    request_of,
    review,
    store_of,
)
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, hook


def shared(server: Webhooks, *, seconds: int = 30, **members: Any) -> Any:
    hooks = [hook(server, "/w", timeoutSeconds=seconds, **members)]
    bindings = [binding(cluster, "ws1", "widgets.example.org") for cluster in ("ws2", "ws3")]
    return store_of(export("ws1", "widgets.example.org"), configuration("ws1", "validating", *hooks), *bindings)


async def open_breaker(front: Front, server: Webhooks, policy: str) -> None:
    """Open the breaker by calls without an answer. Another timeoutSeconds does not change the breaker."""
    store = shared(server, seconds=1, failurePolicy=policy)
    server.hold.clear()
    (found,) = (
        await front.dispatcher(store).find_target(request_of(review()), cluster="ws2", phase="validating")
    ).relevant
    assert found.hook.endpoint
    for _ in range(MAX_FAILURES):
        await front.dispatch(store, review(), cluster="ws2")
    assert front.client.is_silent(found.hook.endpoint, Parties("ws1", "ws2"))
    server.hold.set()
