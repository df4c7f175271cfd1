"""A hook of somebody else: a TLS server that answers as a test wants it to."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from app.certs.authority import issue_serving, new_authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Hook:
    """Where it is, whom to trust, and what it was asked."""

    def __init__(self, port: int, ca_bundle: str) -> None:
        self.port = port
        self.ca_bundle = ca_bundle
        self.reviews: list[dict[str, Any]] = []
        self.queries: list[str] = []
        self.answer: Handler = self.respond(healthy=True)

    def respond(self, **response: Any) -> Handler:
        """Answer to the uid that asked."""

        async def answer(_: web.Request) -> web.StreamResponse:
            uid = self.reviews[-1]["request"]["uid"]
            return web.json_response({"response": {"uid": uid, "successful": True, **response}})

        return answer

    def patch(self, *operations: dict[str, Any]) -> Handler:
        text = base64.b64encode(json.dumps(operations).encode()).decode()
        return self.respond(patch=text, patchType="JSONPatch")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.reviews.append(json.loads(await request.read()))
        self.queries.append(request.query_string)
        return await self.answer(request)


@contextlib.asynccontextmanager
async def hooking(directory: Path) -> AsyncIterator[Hook]:
    now = datetime.now(UTC)
    authority = new_authority(now=now)
    pair = issue_serving(authority, names=["127.0.0.1", "localhost"], now=now)
    (directory / "tls.crt").write_bytes(pair.certificate_pem)
    (directory / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    hook = Hook(0, base64.b64encode(authority.certificate_pem).decode())
    app = web.Application()
    app.router.add_post("/hook", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hook.port = runner.addresses[0][1]
    try:
        yield hook
    finally:
        await asyncio.wait_for(runner.cleanup(), 10)
