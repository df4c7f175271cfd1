"""uvicorn's HTTP protocol, which at shutdown does not wait for clients to close their side of a connection.

To close a TLS connection is to send close_notify and to wait for the client's. An idle client does not read, so it does
not answer: uvloop waits 30 s for it, and uvicorn for uvloop until the shutdown timeout.
"""

import asyncio
import math
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The end of an answer may be in a buffer below TLS that cannot be asked for its size. It holds 64 KiB at most, and only
# if the client has let the system's buffers fill. An answer that is older than this many seconds has left it.
_FLUSH_SECONDS: Final = 2.0


class ClosingProtocol(HttpToolsProtocol):
    """Ends connections that are idle at shutdown at once, and the others once their answer is sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answered_at = -math.inf
        self._shutting_down = False
        self._end_timer: asyncio.TimerHandle | None = None

    def shutdown(self) -> None:
        """Start to close the connection: now if it is idle, else after the request in flight."""
        self._shutting_down = True
        super().shutdown()
        self.end_when_closing()

    def on_response_complete(self) -> None:
        """Note when an answer was written, and close the connection after it at shutdown."""
        self._answered_at = self.loop.time()
        super().on_response_complete()
        self.end_when_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to wait for the client."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        super().connection_lost(exc)

    def end_when_closing(self) -> None:
        """At shutdown, end a connection that is being closed without waiting for the client."""
        if self._shutting_down and self.transport.is_closing() and self._end_timer is None:
            left = self._answered_at + _FLUSH_SECONDS - self.loop.time()
            self._end_timer = self.loop.call_later(max(0.0, left), self._end)

    def _end(self) -> None:
        if self.transport.get_write_buffer_size() > 0:
            # The client still reads its answer; the shutdown timeout ends that.
            self._end_timer = self.loop.call_later(_FLUSH_SECONDS, self._end)
        else:
            self.transport.abort()
