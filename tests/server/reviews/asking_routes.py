"""Asks a review route as the application does, without a server."""

import json
from typing import Any

from fleethook.server.log import LogSink
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import ReviewRoute

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}


def make(route: ReviewRoute, log: LogSink | None = None) -> Any:
    """Return the endpoint of a route, as the application makes it."""
    return route.make(
        route.path, metrics=Metrics(), body_limit=1 << 20, log=log, known_clients_only=False, worker=OnLoop(),
        bodies=None, record=None, trace=None,
    )  # fmt: skip


class OnLoop:
    """Runs work at once."""

    async def run(self, _turn: str, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def review(document: Any, kind: dict[str, str] = DEPLOYMENT) -> bytes:
    request = {"uid": "u-1", "operation": "CREATE", "namespace": "default", "kind": kind, "object": document}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def begin(route: ReviewRoute, body: bytes) -> Any:
    return make(route).answer({"path": route.path, "query_string": b"", "headers": []}, body)


async def ask(route: ReviewRoute, body: bytes) -> dict[str, Any]:
    begun = begin(route, body)
    reply = begun if isinstance(begun, Reply) else await begun
    return dict(json.loads(reply.body)["response"])
