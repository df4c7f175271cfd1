"""Admission webhooks over TLS on loopback, with an answer for each path."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from fleethook.patch import apply
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, webhook
from tests.hook_server import tls

Answer = Callable[[dict[str, Any]], Any]
"""Returns the members of a response to a review, or a complete response of aiohttp."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def deny(message: str = "no", **status: Any) -> Answer:
    return lambda _: {"allowed": False, "status": {"message": message, **status}}


def patch(*operations: dict[str, Any], **members: Any) -> Answer:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patch": text, "patchType": "JSONPatch", **members}


class Call(NamedTuple):
    path: str
    query: str
    review: dict[str, Any]

    @property
    def object(self) -> Any:
        return self.review["request"]["object"]


class Webhooks:
    """A server of webhooks: its address, its answers and the calls that it received."""

    def __init__(self, ca_bundle: str) -> None:
        self.port = 0
        self.ca_bundle = ca_bundle
        self.answers: dict[str, Answer] = {}
        self.calls: list[Call] = []
        self.headers: list[dict[str, str]] = []
        self.peer: Any = None
        self.hold = asyncio.Event()
        self.hold.set()

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle}

    @property
    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        self.calls.append(Call(request.path, request.query_string, review))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        await self.hold.wait()
        if request.transport is not None:  # The client may have gone away meanwhile.
            self.peer = request.transport.get_extra_info("peername")
        found = self.answers.get(request.path)
        if found is None:
            return web.Response(status=404)
        response = found(review)
        if asyncio.iscoroutine(response):
            response = await response
        if isinstance(response, web.StreamResponse):
            return response
        given = {"uid": review["request"]["uid"], **response}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": given})


@contextlib.asynccontextmanager
async def listening(handle: Handler, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve all POST requests with a handler; yields the port."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    server = runner.server
    assert server is not None
    connected, made = server.connection_made, list[asyncio.Transport]()

    def connection_made(handler: Any, transport: asyncio.Transport) -> None:
        made.append(transport)
        connected(handler, transport)

    server.connection_made = connection_made  # type: ignore[method-assign]
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await asyncio.wait_for(runner.cleanup(), 10)
        # A closed connection waits for the client's part of TLS, which may come after the end of the event loop.
        for transport in made:
            transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def webhooks(directory: Path) -> AsyncIterator[Webhooks]:
    context, ca_bundle = tls(directory)
    server = Webhooks(ca_bundle)
    async with listening(server.handle, context) as server.port:
        try:
            yield server
        finally:
            server.hold.set()


def hook(server: Webhooks, path: Any, name: Any = "w.example.org", **members: Any) -> Any:
    return webhook(name, **{"clientConfig": server.client_config(path), **members})


def apply_response(dispatched: Any, document: Any) -> Any:
    return apply(document, dispatched.response.patch)


def label(name: Any, value: Any = "true") -> Any:
    return patch({"op": "add", "path": "/metadata/labels", "value": {name: value}})


def convert(change: Callable[[dict[str, Any]], dict[str, Any]] = lambda one: one) -> Answer:
    """Convert the objects of a ConversionReview, each with a change."""

    def answer(asked: dict[str, Any]) -> Any:
        request = asked["request"]
        objects = [{**change(one), "apiVersion": request["desiredAPIVersion"]} for one in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": "ConversionReview", "response": response})

    return answer


def converting(server: Webhooks, phase: str = "validating", **members: Any) -> list[dict[str, Any]]:
    """Return a definition whose webhook ``/convert`` converts v1, and the webhook ``/w`` of v2."""
    webhook = {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    rules = [{**WIDGETS, "apiVersions": ["v2"]}]
    return [
        definition("ws1", "widgets.example.org", "v1", "v2", conversion=conversion),
        configuration("ws1", phase, hook(server, "/w", rules=rules, **members)),
    ]
