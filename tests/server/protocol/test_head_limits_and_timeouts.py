"""The limits of time and headers, on a connection in memory whose event loop has a clock of its own."""

import asyncio
import heapq
import socket
from collections.abc import Callable
from typing import Any

import pytest
from uvicorn.server import ServerState

from fleethook.cli.serve.uvicorn_server import make_config
from fleethook.server.health import HealthOnly
from fleethook.server.protocol.connections import ClientConnection, Connections, ConnectionStage
from fleethook.server.protocol.head_limits_and_timeouts import Guard, GuardedProtocol
from tests.server.direct_connections import Transport, app_for_tests, encode, review, turns

HEADER, REQUEST = 10.0, 60.0


class Clock:
    """Replaces the time of an event loop: timers fire when a test moves it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = 1000.0
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + delay, callback, args, self._loop)
        heapq.heappush(self._due, (self.now + delay, len(self._due), handle))
        return handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def pass_seconds(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self.now, _, handle = heapq.heappop(self._due)
            if not handle.cancelled():
                handle._run()
            await turns()
        self.now = until


class Client:
    """A client of one connection."""

    def __init__(self, clock: Clock, *, health_only: bool = False, direct: bool = True) -> None:
        app = app_for_tests()
        self.clock = clock
        self.connections = Connections(10)
        guard = Guard(HEADER, REQUEST, self.connections, HealthOnly(app), app.find_direct if direct else None)
        state = ServerState()
        with socket.socket() as unused:
            self.connection = ClientConnection(unused, "192.0.2.1", health_only=health_only)
        self.protocol = GuardedProtocol(
            make_config(app),
            state,
            {},
            clock,
            guard=guard,
            connection=self.connection,  # type: ignore[arg-type]
        )
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        await turns()

    @property
    def received(self) -> bytes:
        return b"".join(self.transport.writes)

    @property
    def status(self) -> int:
        """The status of the last response, 0 without one."""
        found = self.received.split(b"HTTP/1.1 ")[1:]
        return int(found[-1][:3]) if found else 0


@pytest.fixture
async def clock() -> Clock:
    return Clock(asyncio.get_running_loop())


@pytest.fixture
async def client(clock: Clock) -> Client:
    return Client(clock)


HEAD = b"POST /mutate-apps-v1-deployment HTTP/1.1\r\nHost: a\r\n"


async def test_a_connection_without_a_request_gets_408(client: Client, clock: Clock) -> None:
    await clock.pass_seconds(HEADER - 1)
    assert (client.status, client.protocol.stage()) == (0, ConnectionStage.UNPROVEN)
    await clock.pass_seconds(1)
    assert (client.status, client.transport.is_closed) == (408, True)
    assert client.received.endswith(b"the request did not arrive in time")
    assert b"connection: close" in client.received


async def test_bytes_do_not_prolong_the_time_of_the_headers(client: Client, clock: Clock) -> None:
    await client.send(HEAD)
    for number in range(5):
        assert client.status == 0
        await clock.pass_seconds(HEADER / 5)
        if client.status == 0:
            await client.send(b"X-%d: 1\r\n" % number)
    assert client.status == 408


async def test_a_body_has_more_time_than_the_headers(client: Client, clock: Clock) -> None:
    await client.send(encode(review())[:-1])
    assert client.protocol.stage() is ConnectionStage.WAITING
    await clock.pass_seconds(REQUEST - 1)
    assert client.status == 0
    await clock.pass_seconds(1)
    assert (client.status, client.transport.is_closed) == (408, True)


async def test_an_answered_connection_has_no_timer_until_its_next_request(client: Client, clock: Clock) -> None:
    await client.send(encode(review()))
    assert (client.status, client.protocol.stage()) == (200, ConnectionStage.IDLE)
    await client.send(b"POST")
    await clock.pass_seconds(HEADER)
    assert (client.status, client.transport.is_closed) == (408, True)


async def test_each_request_has_time_of_its_own(client: Client, clock: Clock) -> None:
    for _ in range(3):
        await client.send(encode(review())[:20])
        await clock.pass_seconds(HEADER - 1)
        await client.send(encode(review())[20:])
        assert client.status == 200
        await clock.pass_seconds(2)
    assert client.received.count(b"HTTP/1.1 200") == 3


async def test_a_server_that_stopped_reading_gives_its_client_more_time(client: Client, clock: Clock) -> None:
    await client.send(encode(review())[:-1])
    client.protocol.flow.pause_reading()
    await clock.pass_seconds(REQUEST)
    assert client.status == 0
    client.protocol.flow.resume_reading()
    await clock.pass_seconds(REQUEST - 1)
    assert client.status == 0
    await clock.pass_seconds(1)
    assert client.status == 408


LIMITS = {
    "one header": (HEAD + b"X: " + b"x" * (64 * 1024), 431, "the request headers are too large"),
    "many headers": (HEAD + b"X: 1\r\n" * 128 + b"\r\n", 431, "the request has too many headers"),
    "endless headers": (HEAD + b"X: 1\r\n" * 130, 431, "the request headers are too large"),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400, "Invalid HTTP request received."),
}


@pytest.mark.parametrize(("sent", "status", "text"), LIMITS.values(), ids=LIMITS)
async def test_a_client_beyond_the_limits_is_refused(client: Client, sent: bytes, status: int, text: str) -> None:
    await client.send(sent)
    assert (client.status, client.transport.is_closed) == (status, True)
    assert client.received.endswith(text.encode())


async def test_as_many_headers_as_allowed_are_accepted(client: Client) -> None:
    filler = "\r\n".join(f"X-{number}: 1" for number in range(125))
    await client.send(encode(review(), filler))
    assert client.status == 200


async def test_long_trailers_are_refused(clock: Clock) -> None:
    client = Client(clock)
    await client.send(HEAD + b"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n")
    for number in range(70):
        if client.transport.is_closed:
            break
        await client.send(b"X-%d: %s\r\n" % (number, b"x" * 1000))
    assert client.transport.is_closed
    assert client.received.endswith(b"the request trailers are too large")


async def test_requests_beyond_four_in_the_queue_are_refused(clock: Clock) -> None:
    client = Client(clock)
    await client.send(encode(review(), path="/waiting")[:-1])
    rest = encode(review(), path="/waiting")
    client.protocol.data_received(rest[-1:] + rest * 8)
    await turns()
    assert client.transport.is_closed


async def test_a_reserved_connection_answers_health_checks_only(clock: Clock) -> None:
    client = Client(clock, health_only=True)
    await client.send(encode(review()))
    assert client.status == 503


async def test_the_server_can_end_idle_and_busy_connections(clock: Clock) -> None:
    for request in (b"", HEAD, encode(review())):
        client = Client(clock)
        if request:
            await client.send(request)
        client.protocol.end()
        assert client.transport.is_closed
        assert client.status in (0, 200)


async def test_a_lost_connection_is_forgotten(client: Client) -> None:
    assert client.connection.exchange is client.protocol
    client.protocol.connection_lost(None)
    assert client.connection.exchange is None
