"""The uvicorn server with our way of stopping: readiness off, requests finished, then the listener closed."""

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn

from app.api.protocol import guarded_protocol
from app.asgi import Fleethook
from app.cli.output import OutputError

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def server_config(app: Fleethook, context: ssl.SSLContext) -> uvicorn.Config:
    """Return uvicorn's configuration for ``app``.

    Args:
        app: The application, whose settings are used.
        context: The TLS context to serve with.
    """
    settings = app.settings
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=guarded_protocol(header_timeout=settings.header_timeout, request_timeout=settings.request_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=settings.shutdown_timeout,
        ssl_context_factory=lambda _config, _default: context,
    )


class GracefulServer(uvicorn.Server):
    """Takes the first SIGTERM or SIGINT as "finish", the second as "now", and exits 0 either way.

    Between the first and the closing of the listener lies ``drain_delay``: removing an endpoint from a Service takes
    a moment to reach every node, and until then requests still arrive.
    """

    def __init__(self, config: uvicorn.Config, app: Fleethook, *, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._app: Final = app
        self._ready: Final = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals on the event loop while serving; uvicorn would raise them again and exit by signal."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Start to shut down; a second call does not wait for anything."""
        if self._app.draining:
            self.should_exit = self.force_exit = True
            return
        self._app.draining = True
        asyncio.get_running_loop().call_later(self._app.settings.drain_delay, self._close)

    def _close(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then say on which port."""
        await super().startup(sockets)
        if not self.started:
            return
        try:
            self._ready(port_of(self.servers))
        except OutputError:
            # An exception alone would cancel the application's lifespan, which uvicorn logs with a traceback.
            await self.shutdown(sockets)
            raise


def port_of(servers: list[Any]) -> int:
    """Return the port that listeners share, 0 if there are none."""
    sockets = [listener for server in servers for listener in server.sockets]
    return int(sockets[0].getsockname()[1]) if sockets else 0
