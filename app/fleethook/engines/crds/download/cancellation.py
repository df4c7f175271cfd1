"""Cancellation and deadline of a download, effective at once, even while its thread waits.

A socket's timeout is for one read. An origin that sends one byte of a header or of a handshake every few seconds never
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
    """A request to end, made once and never withdrawn."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Held while callbacks run, so that a callback never runs after its removal.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel, from any thread; a second call changes nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            for callback in self._callbacks:
                callback()

    def wait(self, seconds: float) -> bool:
        """Sleep for ``seconds`` or until the cancellation; return whether it was cancelled."""
        return self._event.wait(min(seconds, threading.TIMEOUT_MAX))

    @contextlib.contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback`` at a cancellation during the block, and at once if it is cancelled already.

        Args:
            callback: Called at most once, from another thread; it must neither wait nor raise.
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
    """The end of one attempt: its time is over, or its download was cancelled. Use it as a context manager."""

    def __init__(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        super().__init__()
        self._download = cancellation or Cancellation()
        self._stack = contextlib.ExitStack()
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.cancel)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        """Shut a connection down at the end of the time or at a cancellation.

        This keeps a duplicate of the socket: wrapping the socket in TLS detaches its file descriptor.
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
    """Shut down a connection, established or not; the thread that uses it notices at once."""
    # The peer may have closed it before.
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
