"""Foreign hooks over TLS on loopback: one with answers chosen by a test, and one whose bytes a test writes."""

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiohttp import web

from fleethook.cluster.certificates.authority_and_serving_certificate import KeyPair, issue_serving, new_authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Certificate = Literal["good", "expired", "other name", "self-signed"]
Greeting = Literal["tls", "silence", "reset"]


class Hook:
    """A hook: its port, its CA bundle, and the reviews that it received."""

    def __init__(self, port: int, ca_bundle: str) -> None:
        self.port = port
        self.ca_bundle = ca_bundle
        self.reviews: list[dict[str, Any]] = []
        self.queries: list[str] = []
        self.answer: Handler = self.respond(healthy=True)

    def respond(self, **response: Any) -> Handler:
        """Answer with the uid of the last review."""

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
async def run_hook(directory: Path) -> AsyncIterator[Hook]:
    """Serve POSTs to /hook."""
    context, ca_bundle = tls(directory)
    hook = Hook(0, ca_bundle)
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


def tls(directory: Path, certificate: Certificate = "good") -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a server, and the caBundle for its clients."""
    now = datetime.now(UTC)
    authority = new_authority(now=now)
    pair = _pair(authority, certificate, now)
    (directory / "tls.crt").write_bytes(pair.certificate_pem)
    (directory / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context, base64.b64encode(authority.certificate_pem).decode()


def _pair(authority: KeyPair, certificate: Certificate, now: datetime) -> KeyPair:
    names = ["127.0.0.1", "localhost", "hook.ns.svc"]
    if certificate == "expired":
        return issue_serving(authority, names=names, now=now - timedelta(days=2), lifetime=timedelta(days=1))
    if certificate == "other name":
        return issue_serving(authority, names=["other.example.com"], now=now)
    if certificate == "self-signed":
        return new_authority(now=now, common_name="localhost")
    return issue_serving(authority, names=names, now=now)


class HookRequest(NamedTuple):
    """A request as received."""

    head: bytes
    body: bytes


Responder = Callable[[HookRequest, asyncio.StreamWriter], Awaitable[None]]


def http(body: bytes = b"{}", *, status: str = "200 OK", **headers: str) -> bytes:
    """Return an HTTP/1.1 response; ``content_length=...`` replaces the length of the body."""
    given = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def respond(data: bytes) -> Responder:
    """Write bytes, and keep the connection open."""

    async def answer(_: HookRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def respond_and_close(data: bytes) -> Responder:
    """Write bytes, and close the connection."""

    async def answer(_: HookRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return answer


class RawHook:
    """A hook whose connections a test controls; it counts them."""

    def __init__(self, port: int, ca_bundle: str) -> None:
        self.port = port
        self.ca_bundle = ca_bundle
        self.greeting: Greeting = "tls"
        self.answer: Responder = respond(http())
        self.asked: list[HookRequest] = []
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.directory = Path()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def load(self, certificate_pem: bytes, key_pem: bytes) -> None:
        """Present another certificate from now on."""
        (self.directory / "tls.crt").write_bytes(certificate_pem)
        (self.directory / "tls.key").write_bytes(key_pem)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Keys that OpenSSL finds too small are allowed in a certificate of the server itself.
        self.context.set_ciphers("ALL:@SECLEVEL=0")
        self.context.load_cert_chain(self.directory / "tls.crt", self.directory / "tls.key")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the requests of one connection and answer each."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.writers.append(writer)
        # Many tests are about a client that disconnects.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                self.asked.append(asked := await read_request(reader))
                await self.answer(asked, writer)
        self.open -= 1
        writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> HookRequest:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = (line.split(b":", 1) for line in head.split(b"\r\n") if b":" in line)
    length = next((int(value) for name, value in fields if name.lower() == b"content-length"), 0)
    return HookRequest(head, await reader.readexactly(length))


@contextlib.asynccontextmanager
async def run_raw_hook(directory: Path, certificate: Certificate = "good") -> AsyncIterator[RawHook]:
    """Accept connections on a free port, and cut the open ones at the end."""
    context, ca_bundle = tls(directory, certificate)
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    listening.setblocking(False)
    hook = RawHook(listening.getsockname()[1], ca_bundle)
    hook.directory, hook.context = directory, context
    tasks: set[asyncio.Task[None]] = set()
    accepting = asyncio.create_task(_accept(hook, listening, tasks))
    try:
        yield hook
    finally:
        for task in (accepting, *tasks):
            task.cancel()
        await asyncio.gather(accepting, *tasks, return_exceptions=True)
        for writer in hook.writers:
            writer.transport.abort()
        listening.close()


async def _accept(hook: RawHook, listening: socket.socket, tasks: set[asyncio.Task[None]]) -> None:
    while True:
        accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
        hook.connections += 1
        task = asyncio.create_task(_greet(hook, accepted, hook.context))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _greet(hook: RawHook, accepted: socket.socket, context: ssl.SSLContext) -> None:
    loop = asyncio.get_running_loop()
    if hook.greeting != "tls":
        with contextlib.closing(accepted):
            if hook.greeting == "reset":
                resets(accepted)
                return
            await asyncio.Event().wait()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    # A client may refuse the certificate or disconnect meanwhile.
    with contextlib.suppress(OSError):
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
        await hook.serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


def resets(connection: socket.socket) -> None:
    """Make a connection end with RST instead of FIN when it is closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
