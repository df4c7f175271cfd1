"""Accepting connections, so that they are counted and timed from the moment of accept.

uvicorn and the event loop know a connection only once its TLS handshake is done. A client that never starts it would
hold a connection and its buffers unseen, for the 60 seconds that uvloop gives a handshake.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from app.api.connections import Connection, Connections

_log: Final = logging.getLogger(__name__)

# Connections that are accepted before other events of the loop have their turn; a handshake takes about 0.5 ms.
_ACCEPTED_PER_TURN: Final = 32
# Seconds without accepting when the process or the system has no file descriptor left; asyncio waits as long.
_PAUSE_SECONDS: Final = 1.0
# uvloop reads up to 256 KiB at once, into buffers that a connection keeps. The system doubles this for its own use, and
# with a round trip of 1 ms it still lets a client send 64 MB/s.
_RECEIVE_BYTES: Final = 64 * 1024
# Connections that the system keeps until they are accepted; uvicorn's own default.
_BACKLOG: Final = 2048
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Transports(NamedTuple):
    """How connections are set up.

    Attributes:
        context: The TLS context.
        handshake_timeout: Seconds from accept to the end of the TLS handshake.
        write_timeout: Seconds after which a client is disconnected that acknowledges none of the bytes sent to it.
    """

    context: ssl.SSLContext
    handshake_timeout: float
    write_timeout: float


class Acceptor:
    """Listening sockets that uvicorn can close as it closes those of the event loop."""

    def __init__(
        self,
        sockets: list[socket.socket],
        *,
        connections: Connections,
        transports: Transports,
        make: Callable[[Connection], asyncio.Protocol],
    ) -> None:
        """Prepare; `start` accepts.

        Args:
            sockets: They listen already.
            connections: Counts and limits the connections.
            transports: How they are set up.
            make: Returns the protocol of a connection.
        """
        self.sockets: Final = sockets
        self._connections: Final = connections
        self._transports: Final = transports
        self._make: Final = make
        self._handshakes: Final[set[asyncio.Task[None]]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(self) -> None:
        """Accept connections."""
        for listener in self.sockets:
            listener.setblocking(False)
            # An accepted connection has the options of its listener.
            timeout = max(1, round(1000 * self._transports.write_timeout))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._listen()

    def close(self) -> None:
        """Stop to accept; handshakes go on."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        if self._resume is not None:
            self._resume.cancel()
        for listener in self.sockets:
            loop.remove_reader(listener)
            listener.close()

    async def wait_closed(self) -> None:
        """End the handshakes that are still under way; uvicorn calls this when all other connections are closed."""
        for task in self._handshakes:
            task.cancel()
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _listen(self) -> None:
        self._resume = None
        loop = asyncio.get_running_loop()
        for listener in self.sockets:
            loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                accepted, address = listener.accept()
            except OSError as error:
                # Another worker was faster, or the client has left.
                if error.errno in _OUT_OF_FILES:
                    self._pause(error)
                return
            accepted.setblocking(False)
            connection = self._connections.admit(accepted, address)
            task = asyncio.get_running_loop().create_task(self._connect(accepted, connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _pause(self, error: OSError) -> None:
        _log.error("connections are not accepted for %g s: %s; raise the limit of open files", _PAUSE_SECONDS, error)
        loop = asyncio.get_running_loop()
        for listener in self.sockets:
            loop.remove_reader(listener)
        self._resume = loop.call_later(_PAUSE_SECONDS, self._listen)

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        transports = self._transports
        try:
            # A client that gives up, or sends no TLS, is none of an operator's business.
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: self._make(connection),
                    accepted,
                    ssl=transports.context,
                    ssl_handshake_timeout=transports.handshake_timeout,
                    ssl_shutdown_timeout=transports.write_timeout,
                )
        finally:
            if connection.exchange is None:
                # The handshake failed, so no protocol will say that the connection is gone.
                self._connections.remove(connection)


def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of a host, with the same port.

    Raises:
        OSError: The host has no address, or the port is taken.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            # Port 0 takes a free one: the first socket's, for all.
            chosen = listeners[0].getsockname()[1] if listeners else port
            listeners.append(_listen_on(family, (address[0], chosen, *address[2:])))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listen_on(family: int, address: tuple[str | int, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno, f"cannot listen on {address[0]}:{address[1]}: {str(error.strerror).lower()}"
        ) from None
    return listener
