"""The end of connections at shutdown, by the protocol alone; tests/cli has the same with a server and real clients."""

import asyncio
import contextlib
import socket

import pytest
import uvicorn
from uvicorn.server import ServerState

from fleethook.server.protocol.closing import ClosingProtocol
from tests.waiting import NET, until

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
