"""An end to connections that take too long altogether, whatever they are doing.

A socket's timeout is for one read: an origin that sends a byte of a header or of a handshake every few seconds never
runs into it. Shutting the connection down from outside ends any of these at once.
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Cutoff:
    """Shuts down what it watches after ``seconds``; a context manager around one attempt.

    Attributes:
        fired: Whether it did.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        # Longer waits than it can do are for ever anyhow.
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._fire)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        """Have a connection ended, too.

        A duplicate is kept, which TLS cannot detach: wrapping takes the file descriptor away from the socket itself.
        """
        with self._lock:
            self._sockets.append(duplicate := connected.dup())
            if self.fired:
                _shut(duplicate)

    def _fire(self) -> None:
        with self._lock:
            self.fired = True
            for connected in self._sockets:
                _shut(connected)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for connected in self._sockets:
                connected.close()
            self._sockets.clear()


def _shut(connected: socket.socket) -> None:
    # The other side may have been faster.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
