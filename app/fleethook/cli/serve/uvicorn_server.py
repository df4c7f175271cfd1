"""The uvicorn server with its own acceptor and a graceful shutdown.

The acceptor counts and times connections from the moment of accept. uvicorn and the event loop see a connection only
after its TLS handshake. Without the acceptor, a client that never starts the handshake would hold an uncounted
connection and its buffers for the 60 seconds of uvloop's limit.

Order of the shutdown: become unready, close the listener after a delay, finish the requests.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from fleethook.app import Fleethook
from fleethook.cli.output.text_output import OutputError
from fleethook.model.formats.text import describe_os_error
from fleethook.server.health import HealthOnly
from fleethook.server.log import hide_cancelled_requests
from fleethook.server.protocol.connections import ClientConnection, Connections
from fleethook.server.protocol.head_limits_and_timeouts import (
    HEADER_SECONDS,
    KEEP_ALIVE_SECONDS,
    REQUEST_SECONDS,
    WRITE_SECONDS,
    Guard,
    GuardedProtocol,
)

_log: Final = logging.getLogger(__name__)

# Connections accepted before the event loop handles other events. A handshake takes about 0.5 ms.
_MAX_ACCEPTS_PER_EVENT: Final = 32
# Pause in accepting after the process or the system ran out of file descriptors; asyncio pauses as long.
_PAUSE_SECONDS: Final = 1.0
# uvloop reads up to 256 KiB at once into buffers that a connection keeps. A smaller receive buffer bounds that. The
# kernel doubles it for its own use. With a round trip of 1 ms, a client can still send 64 MB/s.
_RECEIVE_BYTES: Final = 64 * 1024
# Length of the kernel's queue of connections that wait for accept; uvicorn's default.
_BACKLOG: Final = 2048
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
SHUTDOWN_SECONDS: Final = 25
"""For requests in flight to finish at shutdown."""


class Acceptor:
    """Listening sockets with the interface of `asyncio.Server` that uvicorn uses at shutdown."""

    def __init__(
        self,
        sockets: list[socket.socket],
        *,
        connections: Connections,
        context: ssl.SSLContext,
        make: Callable[[ClientConnection], asyncio.Protocol],
    ) -> None:
        """Prepare; `start` begins to accept.

        Args:
            sockets: Listening sockets.
            connections: Counts and limits the connections.
            context: The TLS context.
            make: Returns the protocol for a connection.
        """
        self.sockets: Final = sockets
        self._connections: Final = connections
        self._context: Final = context
        self._make: Final = make
        self._handshakes: Final[set[asyncio.Task[None]]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(self) -> None:
        """Accept connections."""
        for listener in self.sockets:
            listener.setblocking(False)
            # An accepted connection has the options of its listener.
            timeout = round(1000 * WRITE_SECONDS)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._listen()

    def close(self) -> None:
        """Stop accepting; running handshakes continue."""
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
        """Cancel the running handshakes; uvicorn calls this after all other connections are closed."""
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
        for _ in range(_MAX_ACCEPTS_PER_EVENT):
            try:
                accepted, address = listener.accept()
            except OSError as error:
                # Other errors mean that the client closed the connection.
                if error.errno in _OUT_OF_DESCRIPTORS:
                    _log.error(
                        "accepting paused for %g s: %s: raise the limit of open files (ulimit -n)",
                        _PAUSE_SECONDS, error,
                    )  # fmt: skip
                    self._pause()
                return
            accepted.setblocking(False)
            connection = self._connections.admit(accepted, address)
            task = asyncio.get_running_loop().create_task(self._connect(accepted, connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self.sockets:
            loop.remove_reader(listener)
        self._resume = loop.call_later(_PAUSE_SECONDS, self._listen)

    async def _connect(self, accepted: socket.socket, connection: ClientConnection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HEADER_SECONDS,
                ssl_shutdown_timeout=WRITE_SECONDS,
            )
        except OSError:
            # Any client can cause failed handshakes, and operators cannot act on them, so no log line.
            return
        finally:
            if connection.exchange is None:
                # The handshake failed, so no protocol will report the end of the connection.
                self._connections.remove(connection)


_REMEDIES: Final = {
    errno.EADDRINUSE: "give another --port, or end the process that listens there",
    errno.EACCES: "ports below 1024 need privileges, so give another --port",
    errno.EADDRNOTAVAIL: "this machine does not have the address, so give another --host",
    socket.EAI_NONAME: "give another --host",
}


def bind(host: str, port: int) -> list[socket.socket]:
    """Return the listening socket of an address, or of the IPv4 address of a name. Port 0 chooses a free port.

    Raises:
        OSError: The host has no address, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return [socket.create_server((host, port), family=family, backlog=_BACKLOG)]
    except OSError as error:
        # Python adds the address to the text of the system.
        plain = OSError(error.errno, str(error.strerror).partition(" (while ")[0])
        reason = "; ".join(filter(None, (describe_os_error(plain), _REMEDIES.get(error.errno or 0))))
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None


def make_config(app: Fleethook) -> uvicorn.Config:
    """Return uvicorn's configuration for an application."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


async def do_nothing() -> None:
    """Wait for nothing."""


class GracefulServer(uvicorn.Server):
    """Shuts down gracefully at the first SIGTERM or SIGINT, and without waiting for requests if it gets the same again.

    It exits with 0 in both cases. Ctrl-C and the SIGTERM that a parent process sends because of it count as one signal.

    The listener stays open for ``drain_delay`` after the first signal. Requests still arrive during that time, because
    the removal of an endpoint from a Service takes a moment to reach every node.
    """

    def __init__(
        self,
        app: Fleethook,
        context: ssl.SSLContext,
        *,
        ready: Callable[[int], None],
        stopping: Callable[[], Awaitable[None]] = do_nothing,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            app: The application with its settings.
            context: The TLS context.
            ready: Called with the port once the server listens.
            stopping: Called at the first signal, and awaited while the server still answers.
            ended: Called after the last answer, before the default signal handlers are restored.
        """
        super().__init__(make_config(app))
        self._app: Final = app
        self._context: Final = context
        self._ready: Final = ready
        self._stopping: Final = stopping
        self._ended: Final = ended
        self._signals: Final = set[int]()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals on the event loop while serving. uvicorn's handlers would end the process by the signal."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop, number)
        try:
            yield
        finally:
            self._ended()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            # The rest of the shutdown is bounded, and a KeyboardInterrupt within it would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Begin the shutdown; a second call for the same signal shuts down at once."""
        if number in self._signals:
            self.should_exit = self.force_exit = True
            return
        self._signals.add(number)
        if self._app.draining:
            return
        self._app.draining = True
        self._end = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        """Close the listener after the work of `stopping`, at the earliest after the delay."""
        await asyncio.gather(self._stopping(), asyncio.sleep(self._app.settings.drain_delay))
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections on ``sockets``, and report the port."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        acceptor = self._make_acceptor(sockets or [])
        acceptor.start()
        self.servers = [acceptor]  # type: ignore[list-item]  # uvicorn calls close and wait_closed only
        self.started = True
        try:
            self._ready(find_port(self.servers))
        except OutputError:
            # An exception alone would cancel the application's lifespan, which uvicorn logs with a traceback.
            await self.shutdown(sockets)
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener, finish the requests unless a second signal arrives, and end the application."""
        hide_cancelled_requests()
        await super().shutdown(sockets)
        if not self.lifespan.shutdown_event.is_set():
            # uvicorn would leave the application running. The end of the event loop then cancels it, with a traceback.
            await self.lifespan.shutdown()

    def _make_acceptor(self, sockets: list[socket.socket]) -> Acceptor:
        loop = asyncio.get_running_loop()
        connections = Connections(self._app.parts.capacity.connections)
        guard = Guard(
            HEADER_SECONDS,
            REQUEST_SECONDS,
            connections,
            HealthOnly(self._app),
            self._app.find_direct,
        )
        make = partial(GuardedProtocol, self.config, self.server_state, self.lifespan.state, loop, guard=guard)

        def make_protocol(connection: ClientConnection) -> GuardedProtocol:
            return make(connection=connection)

        self._app.connections = connections
        return Acceptor(sockets, connections=connections, context=self._context, make=make_protocol)


def find_port(servers: list[Any]) -> int:
    """Return the port that all listeners share, 0 without listeners."""
    sockets = [listener for server in servers for listener in server.sockets]
    return int(sockets[0].getsockname()[1]) if sockets else 0
