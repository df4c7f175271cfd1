"""uvicorn's HTTP protocol, with clients cut off that are slow to send or send too many headers.

uvicorn bounds only the idle time between requests; a client that opens a connection and says nothing, or drips a
header a minute, holds it for ever.
"""

import asyncio
import enum
from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.api.callers import EXTENSION, client_extension
from app.api.closing import ClosingProtocol

# An apiserver sends well under 1 KiB of headers; client certificates and proxies add some. 64 KiB is what nginx and
# Apache accept in all, and a connection may not hold more of this process's memory before it is known who it is.
_HEADER_LIMIT: Final = 64 * 1024


class _Reading(enum.Enum):
    """What of a request is still to come."""

    NOTHING = enum.auto()
    HEADERS = enum.auto()
    BODY = enum.auto()


def guarded_protocol(  # noqa: C901 - counts the methods of the class inside
    *, header_timeout: float, request_timeout: float
) -> type[HttpToolsProtocol]:
    """Return a protocol class for uvicorn's ``http`` setting.

    Args:
        header_timeout: Seconds from connecting, or from the first byte of a later request, to the end of its headers.
        request_timeout: Seconds from the first byte of a request to its last.
    """

    class GuardedProtocol(ClosingProtocol):
        """Answers 408 or 431 and closes; a request that arrives whole in one read costs no timer at all."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._reading = _Reading.HEADERS
            self._since = 0.0
            self._header_bytes = 0
            self._timer: asyncio.TimerHandle | None = None
            self._timer_for = _Reading.NOTHING
            self._extensions: dict[str, dict[object, object]] = {}

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            certificate = _client_certificate(transport)
            self._extensions = {"tls": _client_of(certificate), EXTENSION: client_extension(certificate)}
            self._since = self.loop.time()
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = self._extensions
            self._reading = _Reading.HEADERS
            self._since = self.loop.time()
            self._header_bytes = 0

        def on_headers_complete(self) -> None:
            self._reading = _Reading.BODY
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._reading = _Reading.NOTHING
            super().on_message_complete()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.is_closing():
                self._disarm()
                return
            if self._reading is _Reading.NOTHING:
                if self._keeps_alive() or not self._idle():
                    self._disarm()
                    return
                # Bytes that begin no request have ended the keep-alive timeout; this one takes its place.
                self._reading = _Reading.HEADERS
                self._since = self.loop.time()
            if self._reading is _Reading.HEADERS:
                self._header_bytes += len(data)
                if self._header_bytes > _HEADER_LIMIT:
                    self._refuse(431, "the request headers are too large")
                    return
            self._arm()

        def _keeps_alive(self) -> bool:
            return self.timeout_keep_alive_task is not None

        def _idle(self) -> bool:
            cycle: RequestResponseCycle | None = self.cycle  # None until the first request, whatever its type says
            return cycle is not None and cycle.response_complete and not self.pipeline

        def _arm(self) -> None:
            if self._timer is not None and self._timer_for is self._reading:
                return
            self._disarm()
            self._timer_for = self._reading
            seconds = header_timeout if self._reading is _Reading.HEADERS else request_timeout
            self._timer = self.loop.call_later(max(0.0, self._since + seconds - self.loop.time()), self._expired)

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _expired(self) -> None:
            self._timer = None
            if self.transport.is_closing():
                return
            if self.flow.read_paused:
                # It is we who do not read: an earlier request of this connection is still being answered.
                self._since = self.loop.time()
                self._arm()
                return
            self._refuse(408, "the request did not arrive in time")

        def _refuse(self, status: int, text: str) -> None:
            self._disarm()
            cycle: RequestResponseCycle | None = self.cycle
            # While a response is being written, more bytes would be read as part of it: closing has to say it all.
            if cycle is None or cycle.response_complete or not cycle.response_started:
                head = STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                self.transport.write(head + b"content-length: %d\r\n\r\n%s" % (len(text), text.encode("ascii")))
            self.transport.close()

    return GuardedProtocol


def _client_certificate(transport: asyncio.Transport) -> Mapping[str, Any] | None:
    """Return the client's certificate, None or empty if it showed none.

    Only a certificate that was verified is returned: TLS ends the handshake of any other.
    """
    secured = transport.get_extra_info("ssl_object")
    certificate: Mapping[str, Any] | None = secured.getpeercert() if secured is not None else None
    return certificate


def _client_of(certificate: Mapping[str, Any] | None) -> dict[object, object]:
    """Return the ASGI TLS extension: the subject of the client's certificate, None if it showed none."""
    if not certificate:
        return {"client_cert_name": None}
    return {"client_cert_name": ",".join(f"{name}={value}" for rdn in certificate["subject"] for name, value in rdn)}
