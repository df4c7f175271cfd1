"""uvicorn's HTTP protocol with limits on time and headers: 408 for slow clients, 431 for long headers.

uvicorn bounds only the idle time between requests. A client that sends nothing on a new connection, or one header a
minute, would keep the connection for ever. A client that sends thousands of requests or headers at once would make
uvicorn create objects for all of them.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from fleethook.server.protocol.connections import ClientConnection, Connections, ConnectionStage
from fleethook.server.protocol.direct_protocol import DirectProtocol, FindEndpoint
from fleethook.server.reviews.http_checks import CONNECTION, EXTENSION, describe_certificate, make_client_extension

HEADER_SECONDS: Final = 10.0
"""From accepting a connection to the end of the headers of its first request."""
REQUEST_SECONDS: Final = 30.0
"""From the first byte of a request to its last."""
WRITE_SECONDS: Final = 15.0
"""Until a client that acknowledges no sent byte is disconnected."""
# Longer than the 90 s after which an apiserver closes an idle connection (Go's DefaultTransport). The client always
# closes first, so no request meets a connection that is closing.
KEEP_ALIVE_SECONDS: Final = 120
# An apiserver sends less than 1 KiB of headers, and proxies add some. nginx and Apache accept 64 KiB in total. The
# limit bounds the memory that an unknown client can hold with one connection.
_HEADER_LIMIT: Final = 64 * 1024
# Apache's default (LimitRequestFields) is 100. Each header takes 150 bytes beside its text, even if the text has 5.
_MAX_HEADERS: Final = 128
# A request takes 20 bytes on the wire and 4 KiB here. Kubernetes clients send one request at a time.
_MAX_PIPELINED: Final = 4
# Bytes that a connection buffers for TLS, to decrypt or to encrypt, before it stops reading or writing.
_BUFFER_BYTES: Final = 64 * 1024


class Guard(NamedTuple):
    """The settings that all connections of a server share.

    Attributes:
        header_timeout: Seconds from accept, or from the first byte of a later request, to the end of its headers.
        request_timeout: Seconds from the first byte of a request to its last.
        connections: Counts the connections.
        health_app: Answers on connections that are reserved for health checks.
        find_endpoint: Finds the endpoints that answer at once, for all other connections; None if there are none.
    """

    header_timeout: float
    request_timeout: float
    connections: Connections
    health_app: ASGIApp
    find_endpoint: FindEndpoint | None = None


_Reading = Literal["nothing", "headers", "body"]
"""The part of a request that the client has not sent yet."""


class _RefusedError(Exception):
    """Ends parsing: the client is refused."""


class GuardedProtocol(DirectProtocol):
    """Answers 408 or 431 and closes; a request that arrives in a single read costs no timer.

    Written against the internals of uvicorn 0.54; pyproject.toml bounds the version.
    """

    def __init__(self, *args: Any, guard: Guard, connection: ClientConnection, **kwargs: Any) -> None:
        """Prepare, and start the time of the connection.

        Args:
            args: As uvicorn's protocol has them.
            guard: The limits.
            connection: The accepted connection whose HTTP side this is.
            kwargs: As uvicorn's protocol has them.
        """
        super().__init__(*args, find_endpoint=None if connection.health_only else guard.find_endpoint, **kwargs)
        self._guard: Final = guard
        self._connection: Final = connection
        if connection.health_only:
            self.app = guard.health_app
        self._reading: _Reading = "headers"
        self._since = self.loop.time()
        self._header_bytes = 0
        self._bytes_since_body = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_for: _Reading = "nothing"
        self._refusal = (0, "")
        self._extensions: dict[str, dict[object, object]] = {}

    def stage(self) -> ConnectionStage:
        """Return the state of the connection, by which the server chooses a connection to close for a new one."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, in spite of its type
        if cycle is None and not self.is_collecting:
            return ConnectionStage.UNPROVEN
        if self._reading != "nothing" or self.flow.write_paused:
            return ConnectionStage.WAITING
        return ConnectionStage.IDLE if cycle is None or cycle.response_complete else ConnectionStage.ANSWERING

    def end(self) -> None:
        """Close the connection without waiting for the client."""
        if self.stage() is ConnectionStage.IDLE:
            self.close_at_once()
        else:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request's headers; the TLS handshake counts, too."""
        super().connection_made(transport)
        self._connection.exchange = self
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            transport.set_read_buffer_limits(high=_BUFFER_BYTES)  # type: ignore[attr-defined]  # of uvloop's TLS
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        # OpenSSL returns verified certificates only: TLS ends the handshake of any other.
        certificate: Mapping[str, Any] | None = secured.getpeercert() if secured is not None else None
        self._extensions = {
            "tls": {"client_cert_name": describe_certificate(certificate)},
            EXTENSION: {**make_client_extension(certificate), CONNECTION: self._connection},
        }
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        self._guard.connections.remove(self._connection)
        super().connection_lost(exc)
        # Cycles of references would keep the buffers of TLS until a garbage collection, which is rare here.
        self._connection.exchange = None

    def on_message_begin(self) -> None:
        """Start the time of a request."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._reading = "headers"
        self._since = self.loop.time()
        self._header_bytes = 0
        self._bytes_since_body = 0

    def on_headers_complete(self) -> None:
        """Start a request, unless it has too many headers or too many requests wait before it."""
        if len(self.headers) > _MAX_HEADERS:
            self._stop_parsing(431, "the request has too many headers")
        if self.pipeline and len(self.pipeline) >= _MAX_PIPELINED:
            self._stop_parsing(429, "too many requests of this connection wait for their answers")
        self._reading = "body"
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._bytes_since_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the end of the request."""
        self._reading = "nothing"
        super().on_message_complete()

    def note_unparsed(self, *, is_complete: bool) -> None:
        """Start or end the time of a body."""
        self._bytes_since_body = 0
        if is_complete:
            self._reading = "nothing"
        elif self._reading == "nothing":
            self._reading = "body"
            self._since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of a read, and check them against the limits of size and time."""
        self._bytes_since_body += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._disarm()
            return
        if self._reading == "nothing":
            if self.timeout_keep_alive_task is not None or not self._is_idle():
                self._disarm()
                return
            # The arrival of bytes has ended the keep-alive timeout. They begin no request, so this timeout replaces it.
            self._reading = "headers"
            self._since = self.loop.time()
        if self._reading == "headers":
            self._header_bytes += len(data)
            if self._header_bytes > _HEADER_LIMIT or len(self.headers or ()) > _MAX_HEADERS:
                self._refuse(431, "the request headers are too large")
                return
        elif self._bytes_since_body > _HEADER_LIMIT:
            # uvicorn keeps trailers like headers, and limits neither them nor extensions of chunks.
            self._refuse(431, "the request trailers are too large")
            return
        self._arm()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed."""
        status, text = self._refusal if self._refusal[0] else (400, msg)
        self._refuse(status, text)

    def _stop_parsing(self, status: int, text: str) -> None:
        # httptools raises its own error from this one, and uvicorn then calls send_400_response.
        self._refusal = (status, text)
        raise _RefusedError

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, in spite of its type
        return cycle is not None and cycle.response_complete and not self.pipeline

    def _arm(self) -> None:
        if self._timer is not None and self._timer_for == self._reading:
            return
        self._disarm()
        self._timer_for = self._reading
        is_head = self._reading == "headers"
        seconds = self._guard.header_timeout if is_head else self._guard.request_timeout
        self._timer = self.loop.call_later(max(0.0, self._since + seconds - self.loop.time()), self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            # The server itself has stopped reading: it still answers an earlier request, or waits for body memory.
            self._since = self.loop.time()
            self._arm()
            return
        self._refuse(408, "the request did not arrive in time")

    def _refuse(self, status: int, text: str) -> None:
        self._disarm()
        self.forget_pending()
        cycle: RequestResponseCycle | None = self.cycle
        # The client would read further bytes as part of a response that has begun, so the connection is only closed.
        if cycle is None or cycle.response_complete or not cycle.response_started:
            head = STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n%s" % (len(text), text.encode("ascii")))
        self.transport.close()
