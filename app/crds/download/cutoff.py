"""An end to connections that take too long altogether, or that nobody wants any more, whatever they are doing.

A socket's timeout is for one read: an origin that sends a byte of a header or of a handshake every few seconds never
runs into it. Shutting the connection down from outside ends any of these at once.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from app.crds.download.cancellation import Cancellation


class Cutoff:
    """Shuts down what it watches after ``seconds``, or when told to; a context manager around one attempt."""

    def __init__(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        self._end = Cancellation()
        self._cancellation = cancellation or Cancellation()
        self._stack = contextlib.ExitStack()
        # Longer waits than it can do are for ever anyhow.
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._end.cancel)
        self._timer.daemon = True

    @property
    def fired(self) -> bool:
        """Whether it ended what it watches."""
        return self._end.cancelled

    def watch(self, connected: socket.socket) -> None:
        """Have a connection ended, too, until the end of the attempt.

        A duplicate is kept, which TLS cannot detach: wrapping takes the file descriptor away from the socket itself.
        """
        duplicate = connected.dup()
        self._stack.callback(duplicate.close)
        self._stack.enter_context(self.telling(partial(shut, duplicate)))

    def telling(self, callback: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Have it end what waits within the block (`Cancellation.telling`)."""
        return self._end.telling(callback)

    def __enter__(self) -> Self:
        self._timer.start()
        self._stack.callback(self._timer.cancel)
        self._stack.enter_context(self._cancellation.telling(self._end.cancel))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def shut(connected: socket.socket) -> None:
    """End a connection, or one that is being made; who uses it is told at once."""
    # The other side may have been faster.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
