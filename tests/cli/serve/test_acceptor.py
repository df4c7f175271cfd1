"""Listeners and accepted connections."""

import asyncio
import errno
import logging
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.serve.acceptor import Acceptor, Transports, bind
from fleethook.cluster.certificates.certificate_files import ensure_certificates
from fleethook.server.protocol.connections import Connection, Connections, Stage
from tests.waiting import until


class Echo(asyncio.Protocol):
    """Echoes bytes. After the handshake, it takes over the connection, as a protocol of HTTP does."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self._connections, self._connection = connections, connection
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connection.exchange = self  # type: ignore[assignment]

    def stage(self) -> Stage:
        return Stage.UNPROVEN

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.remove(self._connection)


def start(tmp_path: Path, listeners: list[socket.socket], connections: Connections) -> tuple[Acceptor, ssl.SSLContext]:
    """Start an acceptor, and return it with the context of its clients."""
    files = ensure_certificates(tmp_path, names=["localhost"], now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    acceptor = Acceptor(
        listeners,
        connections=connections,
        transports=Transports(context, handshake_timeout=60.0, write_timeout=60.0),
        make=lambda connection: Echo(connections, connection),
    )
    acceptor.start()
    return acceptor, ssl.create_default_context(cafile=files.authority_certificate)


async def test_a_connection_is_counted_from_accept_to_its_end(tmp_path: Path) -> None:
    listeners, connections = bind("127.0.0.1", 0), Connections(10)
    port = listeners[0].getsockname()[1]
    acceptor, context = start(tmp_path, listeners, connections)
    with socket.create_connection(("127.0.0.1", port)):
        await until(lambda: len(connections) == 1, what="a client without a handshake is counted")
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert len(connections) == 2
        writer.close()
        await until(lambda: len(connections) == 1, what="the end of a connection is counted")
    await until(lambda: len(connections) == 0, what="the end of a failed handshake is counted")
    acceptor.close()
    await acceptor.wait_closed()


async def test_wait_closed_cancels_handshakes(tmp_path: Path) -> None:
    listeners, connections = bind("127.0.0.1", 0), Connections(10)
    acceptor, _ = start(tmp_path, listeners, connections)
    with socket.create_connection(listeners[0].getsockname()):
        await until(lambda: len(connections) == 1, what="the client is accepted")
        acceptor.close()
        await acceptor.wait_closed()
        assert len(connections) == 0


class Exhausted(socket.socket):
    """A listener of a process without free file descriptors."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_accepting_pauses_without_file_descriptors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (bound,) = bind("127.0.0.1", 0)
    listener = Exhausted(fileno=bound.detach())
    with caplog.at_level(logging.ERROR), socket.create_connection(listener.getsockname()):
        acceptor, _ = start(tmp_path, [listener], Connections(10))
        await until(lambda: bool(caplog.messages), what="the pause is logged")
        acceptor.close()
    assert "Too many open files: raise the limit of open files" in caplog.messages[0]


def test_all_addresses_of_a_host_share_one_port() -> None:
    listeners = bind("localhost", 0)
    try:
        assert len({listener.getsockname()[1] for listener in listeners}) == 1
    finally:
        for listener in listeners:
            listener.close()


def test_a_port_in_use_is_an_error_with_the_address() -> None:
    (listener,) = bind("127.0.0.1", 0)
    with listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            bind("127.0.0.1", port)
