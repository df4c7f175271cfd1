"""uvicorn's HTTP protocol with a quick shutdown: it does not wait for clients to close their side of a connection.

TLS closes a connection by sending close_notify and waiting for the client's close_notify. An idle client does not read,
so it does not answer: uvloop waits 30 s for it, and uvicorn waits for uvloop until the shutdown timeout.
"""

import asyncio
import fcntl
import sys
import termios
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Seconds between two checks of a closing connection; enough for the event loop to write close_notify.
_LOOK_SECONDS: Final = 0.05


class ClosingProtocol(HttpToolsProtocol):
    """Ends idle connections at once at shutdown, and other connections after the client has received its answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shutting_down = False
        self._end_timer: asyncio.TimerHandle | None = None

    def shutdown(self) -> None:
        """Start to close the connection: now if it is idle, else after the request in flight."""
        self._shutting_down = True
        has_all = self._count_unsent() == 0
        super().shutdown()
        self.end_when_closing(has_all=has_all)

    def on_response_complete(self) -> None:
        """Close the connection after the answer at shutdown."""
        super().on_response_complete()
        if self._shutting_down:
            self.end_when_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking the connection."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        super().connection_lost(exc)

    def end_when_closing(self, *, has_all: bool = False) -> None:
        """End a connection that is closing at shutdown, without waiting for the client to close its side.

        Args:
            has_all: Whether the client had received all bytes before the connection was closed, so that only
                close_notify is in flight.
        """
        if self._shutting_down and self.transport.is_closing() and self._end_timer is None:
            self._look_again(looks_left=0 if has_all else 1)

    def close_at_once(self) -> None:
        """Close a connection that has nothing to send, without waiting for the client to close its side."""
        self.transport.close()
        if self._end_timer is None:
            self._look_again(looks_left=0)

    def _look_again(self, *, looks_left: int) -> None:
        self._end_timer = self.loop.call_later(_LOOK_SECONDS, self._look, looks_left)

    def _look(self, looks_left: int) -> None:
        if looks_left == 0:
            self.transport.abort()
        elif self._count_unsent():
            # The client still reads its answer; the shutdown timeout limits this.
            self._look_again(looks_left=1)
        else:
            # The event loop may hold more bytes and pass them to the system before the next check.
            self._look_again(looks_left=looks_left - 1)

    def _count_unsent(self) -> int:
        """Return the number of bytes that the client has not acknowledged, as far as TLS and the system know."""
        connected = self.transport.get_extra_info("socket")
        try:
            queued = None if connected is None else fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:
            queued = None
        if queued is None:
            # The connection is gone; the event loop calls connection_lost next.
            return 0
        return int.from_bytes(queued, sys.byteorder) + self.transport.get_write_buffer_size()
