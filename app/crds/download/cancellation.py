"""Cancellation from another thread, at once, also while the working thread waits.

A socket's timeout is for one read. An origin that sends a byte of a header or of a handshake every few seconds never
reaches it. Shutting the connection down from another thread ends each of these waits.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Self


class Cancellation:
    """A wish that something ends, made once and for all."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Held while callbacks run, so that none of them runs any more once it has been taken back.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Whether it was made."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Make it, from any thread; again changes nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            for callback in self._callbacks:
                callback()

    def wait(self, seconds: float) -> bool:
        """Sleep, until it is made at the longest; return whether it was."""
        return self._event.wait(min(seconds, threading.TIMEOUT_MAX))

    @contextlib.contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Have it tell the code that waits within the block, at once if it was made before.

        Args:
            callback: Called once at most, from another thread; it may neither wait nor raise.
        """
        with self._lock:
            self._callbacks.append(callback)
            if self._event.is_set():
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


class Deadline(Cancellation):
    """The end of one attempt: its time is over, or its download was cancelled; a context manager around the attempt."""

    def __init__(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        super().__init__()
        self._download = cancellation or Cancellation()
        self._stack = contextlib.ExitStack()
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.cancel)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        """Shut a connection down, too, if the end comes within the attempt.

        A duplicate is kept, which TLS cannot detach: wrapping takes the file descriptor away from the socket itself.
        """
        duplicate = connected.dup()
        self._stack.callback(duplicate.close)
        self._stack.enter_context(self.on_cancel(partial(shut_down, duplicate)))

    def __enter__(self) -> Self:
        self._timer.start()
        self._stack.callback(self._timer.cancel)
        self._stack.enter_context(self._download.on_cancel(self.cancel))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def shut_down(connected: socket.socket) -> None:
    """End a connection, or one that is being made; the thread that uses it notices at once."""
    # The other side may have been faster.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
