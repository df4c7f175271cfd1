"""The end of connections at shutdown, by the protocol alone; tests/cli has the same with a server and real clients."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from fleethook.app import create_app
from fleethook.fair_limits import LimitError
from fleethook.server.protocol.bodies import BodyCharge
from fleethook.server.protocol.connections import (
    ClientConnection,
    ClosingProtocol,
    Connections,
    ConnectionStage,
    choose_victims,
    derive_capacity,
    find_memory_limit,
)
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.waiting import NET, until

UNPROVEN, IDLE, WAITING, ANSWERING = ConnectionStage
APISERVER = "10.0.0.1"


class Held:
    """The HTTP side of a connection in a state."""

    def __init__(self, stage: ConnectionStage) -> None:
        self.found = stage
        self.ended = False

    def stage(self) -> ConnectionStage:
        return self.found

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def connection(client: str, stage: ConnectionStage, accepted: socket.socket) -> ClientConnection:
    made = ClientConnection(accepted, client, health_only=False)
    made.exchange = Held(stage)
    return made


@pytest.mark.parametrize(
    ("held", "newcomer", "victims"),
    [
        # Of one client: silent connections, then idle ones, each the oldest first, then those that wait for the client.
        ([("a", WAITING), ("a", IDLE), ("a", UNPROVEN), ("a", IDLE)], "a", [2, 1, 3, 0]),
        ([("a", ANSWERING), ("a", ANSWERING)], "b", []),
        # A client beyond its share loses connections that another one within its share would keep.
        ([("b", IDLE), ("a", WAITING), ("a", WAITING), ("a", WAITING)], "b", [1, 2, 3, 0]),
        ([("b", UNPROVEN), ("a", IDLE), ("a", UNPROVEN), ("a", IDLE)], "b", [2, 1, 3, 0]),
        # A client within its share loses no request that has begun.
        ([("a", WAITING), ("b", WAITING), ("c", IDLE)], "d", [2, 0, 1]),
        ([("a", ANSWERING), ("a", ANSWERING), ("b", WAITING)], "c", []),
    ],
)
def test_the_choice_of_connections_that_are_closed(
    held: list[tuple[str, ConnectionStage]], newcomer: str, victims: list[int], accepted: socket.socket
) -> None:
    found = [connection(client, stage, accepted) for client, stage in held]
    assert choose(found, newcomer, count=9) == victims
    assert choose(found, newcomer, count=1) == victims[:1]


def choose(found: list[ClientConnection], newcomer: str, *, count: int = 9) -> list[int]:
    """Return the indices of the connections that are closed."""
    return [found.index(victim) for victim in choose_victims(found, newcomer=newcomer, count=count)]


@pytest.mark.parametrize(
    ("held", "newcomer", "victims"),
    [
        # A cluster above its share loses connections before the address of all clusters.
        ("? ? ws2! ws2. ws2. ws3.", APISERVER, [3, 4, 0, 1, 5]),
        ("ws2! ws2! ws2! ws3.", APISERVER, [3]),
        ("ws2! ws2! ws2! ws3!", APISERVER, []),
        # The cluster with most connections is the first to lose some.
        ("ws4. ws4. ws2~ ws2~ ws2~ ws3. ws5. ws6.", APISERVER, [2, 3, 4, 0, 1, 5, 6, 7]),
    ],
)
def test_connections_of_logical_clusters_behind_one_address(
    held: str, newcomer: str, victims: list[int], accepted: socket.socket
) -> None:
    """``?`` is the address, ``!`` is being answered, ``.`` is idle, ``~`` is in the middle of a request."""
    found = []
    for mark in held.split():
        stage = {"!": ANSWERING, ".": IDLE, "~": WAITING}.get(mark[-1], UNPROVEN)
        found.append(connection(APISERVER, stage, accepted))
        if cluster := mark.strip("?!.~"):
            found[-1].assign(cluster)
    assert choose(found, newcomer) == victims


def admit(
    connections: Connections, accepted: socket.socket, stage: ConnectionStage, cluster: str = ""
) -> ClientConnection:
    made = connections.admit(accepted, (APISERVER, 1))
    made.exchange = Held(stage)
    if cluster:
        made.assign(cluster)
    return made


async def test_the_turn_of_a_connection_that_is_gone_is_cancelled(accepted: socket.socket) -> None:
    connections = Connections(4)
    made = admit(connections, accepted, WAITING, "ws2")
    turn, late = (asyncio.get_running_loop().create_future() for _ in range(2))
    made.wait_for(turn)
    connections.remove(made)
    made.wait_for(late)
    assert turn.cancelled()
    assert late.cancelled()


def test_a_new_connection_takes_the_place_of_an_idle_one(accepted: socket.socket) -> None:
    connections = Connections(2)
    first, second = admit(connections, accepted, ANSWERING), admit(connections, accepted, IDLE)
    third = admit(connections, accepted, UNPROVEN)
    assert isinstance(first.exchange, Held)
    assert isinstance(second.exchange, Held)
    assert (first.exchange.ended, second.exchange.ended, third.health_only, len(connections)) == (False, True, False, 2)


def test_beyond_the_limit_connections_are_for_health_checks_and_the_newest_stay(accepted: socket.socket) -> None:
    connections = Connections(1)
    admit(connections, accepted, ANSWERING)
    further = [connections.admit(accepted, (APISERVER, port)) for port in range(5)]
    assert [one.health_only for one in further] == [True] * 5
    assert len(connections) == 5
    # The first of them was closed for the fifth; it had not finished its TLS handshake.
    with pytest.raises(BrokenPipeError):
        accepted.send(b"x")


def test_a_connection_that_is_gone_makes_room(accepted: socket.socket) -> None:
    connections = Connections(1)
    first = admit(connections, accepted, ANSWERING)
    connections.remove(first)
    assert not admit(connections, accepted, UNPROVEN).health_only


ANSWER = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}


class Side:
    """The server's side of a TCP connection, whose client is a plain socket that a test reads."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.size = 2
        self.state = ServerState()
        self.protocols: list[ClosingProtocol] = []
        self.reached = asyncio.Event()

    async def app(self, _scope: object, _receive: object, send: object) -> None:
        self.reached.set()
        await self.released.wait()
        length = str(self.size).encode()
        await send({**ANSWER, "headers": [(b"content-length", length)]})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"x" * self.size})  # type: ignore[operator]

    def make(self) -> ClosingProtocol:
        config = uvicorn.Config(self.app, interface="asgi3", ws="none", lifespan="off", log_config=None)
        config.load()
        made = ClosingProtocol(config, self.state, {})
        self.protocols.append(made)
        return made


@pytest.fixture
async def side() -> Side:
    return Side()


async def connect(side: Side) -> tuple[asyncio.Server, socket.socket]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(side.make, "127.0.0.1", 0)
    client = socket.create_connection(server.sockets[0].getsockname())
    client.setblocking(False)
    await until(lambda: side.protocols and side.protocols[0].transport is not None)
    return server, client


async def read_to_end(client: socket.socket) -> bytes:
    """Return all bytes until the connection ends, also by a reset."""
    loop, received = asyncio.get_running_loop(), b""
    try:
        async with asyncio.timeout(NET):
            while part := await loop.sock_recv(client, 1 << 16):
                received += part
    except ConnectionResetError:
        pass
    return received


async def test_an_idle_connection_ends_at_shutdown(side: Side) -> None:
    server, client = await connect(side)
    with client:
        side.protocols[0].shutdown()
        assert await read_to_end(client) == b""
        await until(lambda: not side.state.connections)
    server.close()


async def test_a_request_in_flight_is_answered_before_its_connection_ends(side: Side) -> None:
    server, client = await connect(side)
    with client:
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(side.reached.wait(), NET)
        side.protocols[0].shutdown()
        side.released.set()
        received = await read_to_end(client)
        assert received.startswith(b"HTTP/1.1 200")
        assert received.endswith(b"\r\n\r\nxx")
        await until(lambda: not side.state.connections)
    server.close()


async def test_a_long_answer_is_sent_whole_to_a_client_that_reads_it_late(side: Side) -> None:
    # More than the buffers of both sockets, so that some of it is unsent while the server shuts down.
    side.size = 16 << 20
    server, client = await connect(side)
    with client:
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(side.reached.wait(), NET)
        side.released.set()
        await until(side.protocols[0].transport.get_write_buffer_size)
        side.protocols[0].shutdown()
        received = await read_to_end(client)
        assert len(received.partition(b"\r\n\r\n")[2]) == side.size
    server.close()


async def test_a_connection_that_is_closed_at_once_does_not_wait_for_its_client(side: Side) -> None:
    server, client = await connect(side)
    with client:
        side.protocols[0].close_at_once()
        side.protocols[0].close_at_once()
        assert await read_to_end(client) == b""
        await until(lambda: not side.state.connections)
    server.close()


class HalfClosed(asyncio.Transport):
    """A TLS transport whose client never closes its side: it stays closing until it is aborted."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__({"socket": connected})
        self.is_closed = self.is_aborted = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0


async def test_a_client_that_does_not_close_its_side_is_not_waited_for(side: Side) -> None:
    served, client = socket.socketpair()
    with served, client:
        protocol, transport = side.make(), HalfClosed(served)
        protocol.transport = transport
        protocol.close_at_once()
        assert (transport.is_closed, transport.is_aborted) == (True, False)
        await until(lambda: transport.is_aborted)


async def test_a_client_that_still_reads_its_answer_is_waited_for(side: Side) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    served, _ = listener.accept()
    with listener, client, served:
        served.setblocking(False)
        client.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += served.send(b"x" * 65536)
        protocol, transport = side.make(), HalfClosed(served)
        protocol.transport = transport
        protocol.shutdown()
        looks, look = 0, protocol._look

        def count_looks(looks_left: int) -> None:
            nonlocal looks
            looks += 1
            look(looks_left)

        protocol._look = count_looks  # type: ignore[method-assign]
        await until(lambda: looks == 5)
        assert not transport.is_aborted
        received = 0
        while not transport.is_aborted:
            with contextlib.suppress(BlockingIOError):
                received += len(client.recv(1 << 20))
            await asyncio.sleep(0)
        assert received == sent


MI = 1 << 20


PHYSICAL = find_memory_limit(Path("/nonexistent"))


def root(directory: Path, name: str, text: str) -> Path:
    file = directory / "sys" / "fs" / "cgroup" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory.max", "1048576\n", 1048576),
        ("memory.max", "max\n", PHYSICAL),
        ("memory/memory.limit_in_bytes", "6291456\n", 6291456),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", PHYSICAL),
    ],
)
def test_the_memory_limit_is_that_of_the_container(tmp_path: Path, name: str, text: str, expected: int) -> None:
    assert find_memory_limit(root(tmp_path, name, text)) == expected


def test_the_memory_of_the_machine_limits_a_larger_group(tmp_path: Path) -> None:
    assert find_memory_limit(root(tmp_path, "memory.max", str(PHYSICAL + 1))) == PHYSICAL


GI = 1 << 30
FILES = 1 << 20


@pytest.mark.parametrize(
    ("given", "memory", "open_files", "connections", "bodies"),
    [
        ({}, GI, FILES, 256, GI // 4),
        ({}, 64 << 20, FILES, 64, 16 << 20),
        ({"body_limit": 32 << 20}, 64 << 20, FILES, 64, 64 << 20),
        ({}, 1024 * GI, FILES, 16384, 256 * GI),
        ({}, GI, 400, 144, GI // 4),
        ({}, GI, 100, 1, GI // 4),
        ({"max_connections": 7, "body_memory": "2Mi"}, GI, FILES, 7, 2 << 20),
    ],
)
def test_capacity_is_a_quarter_of_the_memory_each(
    given: dict[str, object], memory: int, open_files: int, connections: int, bodies: int
) -> None:
    found = derive_capacity(Settings.model_validate(given), memory=memory, open_files=open_files)
    assert found == (connections, bodies)


TYPES = (
    "fleethook_connections", "fleethook_connections_limit", "fleethook_connections_closed_total",
    "fleethook_connections_health_only_total", "fleethook_body_bytes", "fleethook_body_bytes_limit",
    "fleethook_bodies_refused_total",
)  # fmt: skip


async def test_connections_and_bodies_are_counted_with_their_limits() -> None:
    app = create_app(Settings(max_connections=2, body_memory=2**20), log=None)

    async def found() -> dict[str, float]:
        lines = (await call(app, "/metrics", method="GET")).body.decode().splitlines()
        return {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name in TYPES}

    # A server that does not listen has no connections.
    assert set(await found()) == set(TYPES[4:])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        app.connections = Connections(app.parts.capacity.connections)
        for stage in (
            ConnectionStage.IDLE,
            ConnectionStage.ANSWERING,
            ConnectionStage.ANSWERING,
            ConnectionStage.ANSWERING,
        ):
            app.connections.admit(ours, ("10.0.0.1", 1)).exchange = Held(stage)
        app.bodies._max_wait = 0.0  # type: ignore[misc]
        with BodyCharge(app.bodies, "a") as charge, BodyCharge(app.bodies, "b") as other:
            await charge.add(2**18 + 2**17)
            await charge.add(2**17)
            await other.add(1)
            with pytest.raises(LimitError):
                await other.add(2**19)
            assert await found() == dict(zip(TYPES, (3, 2, 1, 1, 2**19 + 1, 2**20, 1), strict=True))
    assert (await found())["fleethook_body_bytes"] == 0
