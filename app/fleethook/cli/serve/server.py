"""The uvicorn server with its own acceptor and a graceful shutdown.

Order of the shutdown: become unready, close the listener after a delay, finish the requests.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from fleethook.app import Fleethook
from fleethook.cli.exit_codes import OutputError
from fleethook.cli.serve.acceptor import Acceptor, Transports
from fleethook.lifetime import hide_cancelled_requests
from fleethook.server.health import HealthOnly
from fleethook.server.protocol.connections import Connection, Connections
from fleethook.server.protocol.read_timeout import Guard, GuardedProtocol

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

HEADER_SECONDS: Final = 10.0
"""From accepting a connection to the end of the headers of its first request."""
REQUEST_SECONDS: Final = 30.0
"""From the first byte of a request to its last."""
WRITE_SECONDS: Final = 15.0
"""Until a client that acknowledges no sent byte is disconnected."""
# Longer than the 90 s after which an apiserver closes an idle connection (Go's DefaultTransport). The client always
# closes first, so no request meets a connection that is closing.
KEEP_ALIVE_SECONDS: Final = 120
SHUTDOWN_SECONDS: Final = 25
"""For requests in flight to finish at shutdown."""


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
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            app: The application with its settings.
            context: The TLS context.
            ready: Called with the port once the server listens.
            ended: Called after the last answer, before the default signal handlers are restored.
        """
        super().__init__(make_config(app))
        self._app: Final = app
        self._context: Final = context
        self._ready: Final = ready
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
        asyncio.get_running_loop().call_later(self._app.settings.drain_delay, self._close)

    def _close(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections on ``sockets``, and report the port."""
        try:
            await self.lifespan.startup()
        except asyncio.CancelledError:
            # Ctrl-C before `capture_signals`. The end of the event loop cancels the application, and Starlette would
            # have uvicorn log a traceback.
            self.lifespan.startup_failed = True
            self.lifespan.logger = logging.getLogger(f"{__name__}.cancelled")
            self.lifespan.logger.disabled = True
            raise
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
        connections = Connections(self._app.capacity.connections)
        guard = Guard(
            HEADER_SECONDS,
            REQUEST_SECONDS,
            connections,
            HealthOnly(self._app),
            self._app.find_direct,
        )
        make = partial(GuardedProtocol, self.config, self.server_state, self.lifespan.state, loop, guard=guard)

        def make_protocol(connection: Connection) -> GuardedProtocol:
            return make(connection=connection)

        self._app.connections = connections
        transports = Transports(self._context, HEADER_SECONDS, WRITE_SECONDS)
        return Acceptor(sockets, connections=connections, transports=transports, make=make_protocol)


def find_port(servers: list[Any]) -> int:
    """Return the port that all listeners share, 0 without listeners."""
    sockets = [listener for server in servers for listener in server.sockets]
    return int(sockets[0].getsockname()[1]) if sockets else 0
