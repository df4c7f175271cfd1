"""A connection in memory to the protocol of the real server, with or without the direct path."""

import asyncio
import enum
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uvicorn.server import ServerState

from fleethook.app import Fleethook, create_app
from fleethook.cli.serve.uvicorn_server import make_config
from fleethook.model.admission import AdmissionRequest, Response, patched
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.server.health import HealthOnly
from fleethook.server.log import LogSink
from fleethook.server.protocol.bodies import Reply
from fleethook.server.protocol.connections import ClientConnection, Connections
from fleethook.server.protocol.head_limits_and_timeouts import Guard, GuardedProtocol
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import REQUEST_ID
from fleethook.settings import Settings
from tests.builders import entry, image, overrider, workload, yurt_app_set

MUTATE = "/mutate-apps-v1-deployment"
WAITING = "/waiting"
FAILING = "/failing"
EXITING = "/exiting"
LENGTHY = "/lengthy"
LIMIT = 40_000
"""Bytes of a review that is too long for an answer at once."""
TURNS = 25
"""Turns of the event loop that suffice for the answer to any request of these tests."""


Certificate = Mapping[str, Any]
NOBODY: Certificate = {}
"""TLS without a client certificate."""
SOMEBODY: Certificate = {"subject": ((("commonName", "kube-apiserver"),),)}


class Event(enum.Enum):
    """An event beside the bytes of a connection."""

    SHUT_DOWN = enum.auto()
    """The server begins to shut down."""
    STOP_READING = enum.auto()
    """The client stops reading, and the buffers are full."""
    READ_AGAIN = enum.auto()
    TAKE_MEMORY = enum.auto()
    """Another client takes all body memory."""
    FREE_MEMORY = enum.auto()


class Secured(NamedTuple):
    """The TLS side of a connection."""

    certificate: Certificate

    def getpeercert(self) -> Certificate:
        return self.certificate


class Transport(asyncio.Transport):
    """Keeps the bytes that are written."""

    def __init__(self, certificate: Certificate | None = None) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_paused = self.is_closed = False
        self._infos: dict[str, Any] = {"peername": ("192.0.2.1", 1234)}
        if certificate is not None:
            self._infos["ssl_object"] = Secured(certificate)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._infos.get(name, default)

    def write(self, data: Any) -> None:
        if not self.is_closed:
            self.writes.append(bytes(data))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Failing(AdmissionEndpoint):
    """Has a defect."""

    error: type[BaseException] = LookupError

    def answer(self, scope: Any, body: bytes) -> Reply:
        raise self.error(f"{len(body)} {scope.get(REQUEST_ID, '')} {scope['path']}")


class Exiting(Failing):
    """Calls a function that ends the process."""

    error = SystemExit


async def wait_and_patch(request: AdmissionRequest) -> Response:
    await asyncio.sleep(0)
    return patched([{"op": "add", "path": "/metadata/labels", "value": {"uid": request.uid}}])


def patch_at_length(_request: AdmissionRequest) -> Response:
    return patched([{"op": "add", "path": "/metadata/labels", "value": {"x": "x" * 200_000}}])


def app_for_tests(
    log: LogSink | None = None, *, known_clients_only: bool = False, is_compiled: bool = True, **settings: Any
) -> Fleethook:
    """Return an app with the plan of the workload under review, so that the review needs no waiting."""
    if known_clients_only:
        settings["client_ca_file"] = Path("ca.crt")
    app = create_app(Settings(body_limit=LIMIT, **settings), log=log)
    subject, applied = yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
    for document in (subject, applied):
        app.store.put(document)
    if is_compiled:
        app.engines["overrider"].plans.plan(
            YURT_APP_SET, subject, applied, kind="Deployment", pool="hangzhou", cluster="", store=app.store
        )  # fmt: skip
    known: dict[str, Any] = {
        "metrics": app.metrics, "body_limit": LIMIT, "log": log, "bodies": app.bodies,
        "known_clients_only": known_clients_only,
    }  # fmt: skip
    app.reviews[WAITING] = AdmissionEndpoint(WAITING, wait_and_patch, **known)
    app.reviews[FAILING] = Failing(FAILING, lambda _: patched([]), **known)
    app.reviews[EXITING] = Exiting(EXITING, lambda _: patched([]), **known)
    app.reviews[LENGTHY] = AdmissionEndpoint(LENGTHY, patch_at_length, **known)
    for endpoint in app.reviews.values():
        endpoint._worker = OnLoop()  # type: ignore[misc, assignment]
    return app


class OnLoop:
    """Runs the work on large reviews at once: a thread would take an unknown number of turns of the event loop."""

    async def run(self, _turn: str, function: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return function(*arguments)


class Outcome(NamedTuple):
    """The bytes that a client has received, the end of its connection, and the number of writes."""

    received: bytes
    is_closed: bool
    writes: int


class Wire:
    """A connection to an app."""

    def __init__(self, app: Fleethook, *, direct: bool, certificate: Certificate | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")]
        connections = Connections(10)
        guard = Guard(3600.0, 3600.0, connections, HealthOnly(app), app.find_direct if direct else None)
        with socket.socket() as unused:
            connection = ClientConnection(unused, "192.0.2.1", health_only=False)
        self.protocol = GuardedProtocol(make_config(app), self.state, {}, loop, guard=guard, connection=connection)
        self.transport = Transport(certificate)
        self.protocol.connection_made(self.transport)

    async def read(self, chunk: bytes) -> bool:
        """Have the server read some bytes, unless it has paused reading; return whether it has read them."""
        if self.transport.is_paused or self.transport.is_closed:
            return False
        self.protocol.data_received(chunk)
        await turns()
        return True

    async def shut_down(self) -> None:
        """Have the server begin to shut down."""
        self.protocol.shutdown()
        await turns()

    async def end(self) -> Outcome:
        """Have the client close its side, and return all that it received until then."""
        outcome = Outcome(b"".join(self.transport.writes), self.transport.is_closed, len(self.transport.writes))
        self.close()
        await turns()
        assert not self.state.tasks
        return outcome

    def close(self) -> None:
        """Have the client close its side; the event loop closes the transport, unless the protocol keeps it open."""
        if not self.protocol.eof_received():  # type: ignore[func-returns-value]  # as an event loop asks
            self.transport.close()
        self.protocol.connection_lost(None)


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Neighbour:
    """Another client, which holds body memory."""

    def __init__(self, app: Fleethook) -> None:
        self._bodies = app.bodies
        self._held = 0

    def take(self, *, leave: int = 0) -> None:
        """Take all free memory but ``leave`` bytes; do nothing if it is taken already."""
        if self._held:
            return
        size = 2 * self._bodies.largest - self._bodies.total - leave
        assert self._bodies.take("192.0.2.2", size)
        self._held += size

    def give_back(self) -> None:
        self._bodies.release("192.0.2.2", self._held)
        self._held = 0


_INVALID = re.compile(rb"garbage|\x00|POST / HT(?!TP)|X-199")


def is_comparable(chunks: Sequence[bytes | Event]) -> bool:
    """Return whether both paths must give the same answers.

    An invalid request ends the connection, and a client that does not read its answers loses earlier ones then. uvicorn
    stops reading in another order (see `ask`), so the paths lose other ones.
    """
    return Event.STOP_READING not in chunks or not _INVALID.search(b"".join(c for c in chunks if isinstance(c, bytes)))


async def ask(
    app: Fleethook, chunks: Sequence[bytes | Event], *, direct: bool, certificate: Certificate | None = None
) -> Outcome:
    """Return the outcome of a connection that sends some bytes, with events in between."""
    wire, neighbour = Wire(app, direct=direct, certificate=certificate), Neighbour(app)
    happen: dict[Event, Callable[[], object]] = {
        Event.SHUT_DOWN: wire.protocol.shutdown,
        Event.STOP_READING: wire.protocol.pause_writing,
        Event.READ_AGAIN: wire.protocol.resume_writing,
        Event.TAKE_MEMORY: neighbour.take,
        Event.FREE_MEMORY: neighbour.give_back,
    }
    for chunk in chunks:
        if isinstance(chunk, bytes):
            if not await wire.read(chunk):
                # uvicorn stops reading for a pipelined request and resumes in `receive`. Both happen in another order
                # if a request arrives in several reads, so only a client that reads its answers gets the same ones.
                wire.protocol.resume_writing()
                await turns()
                if not await wire.read(chunk):
                    break
        else:
            happen[chunk]()
            await turns()
    # A request that waits for memory or for its client would wait in real time.
    neighbour.give_back()
    wire.protocol.resume_writing()
    await turns()
    return await wire.end()


def review(uid: str = "u-1", document: Any = None) -> bytes:
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {
        "uid": uid, "operation": "CREATE", "namespace": "default", "kind": kind, "object": document or workload(),
    }  # fmt: skip
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(envelope).encode()


def long_review(size: int) -> bytes:
    """Return a review of a Deployment with an annotation of ``size`` bytes."""
    document = workload()
    document["metadata"]["annotations"]["note"] = "x" * size
    return review(document=document)


def encode(body: bytes, *headers: str, method: str = "POST", path: str = MUTATE, version: str = "1.1") -> bytes:
    """Return a request with the length of its body, unless its headers say that it is chunked."""
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("Content-Type: application/json")
    if any(header.lower().startswith("transfer-encoding") for header in headers):
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _halves(body)) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _halves(body: bytes) -> Iterator[bytes]:
    middle = len(body) // 2
    yield from (part for part in (body[:middle], body[middle:]) if part)
