"""Ending something at once from another thread, whatever it is waiting for."""

import contextlib
import threading
from collections.abc import Callable, Iterator


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
        # Longer waits than it can do are for ever anyhow.
        return self._event.wait(min(seconds, threading.TIMEOUT_MAX))

    @contextlib.contextmanager
    def telling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Have it tell what waits within the block, at once if it was made before.

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
