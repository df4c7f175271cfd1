"""Keeps the recorder from slowing a busy event loop down.

The recorder shares the interpreter lock with the event loop, and perhaps its core. While the event loop works for most
of the time, the recorder rests, so that its share of the time stays small. The queue may then overflow.
"""

import time
from collections.abc import Callable
from typing import Final

SHARE: Final = 0.015
"""The largest share of the time for which the recorder works while the event loop is busy."""
_BUSY: Final = 0.7
"""The share of the time from which an event loop counts as busy; the recorder may take a sixth from a saturated one."""
_WINDOW_SECONDS: Final = 0.1
_MAX_REST: Final = 1.0


def time_thread(ident: int) -> Callable[[], float]:
    """Return a function that returns the seconds of processor time of a thread, which must not end earlier.

    Where the system does not tell them (macOS), it returns 0.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(clock)


class Throttle:
    """Computes the time for which the recorder rests."""

    def __init__(
        self,
        event_loop: Callable[[], float],
        *,
        recorder: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the throttle.

        Args:
            event_loop: Returns the seconds of processor time of the event loop's thread.
            recorder: Returns those of the calling thread.
            clock: Returns the time in seconds.
        """
        self._event_loop: Final = event_loop
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._since, self._before = clock(), event_loop()
        self._is_busy = False
        self._worked = 0.0

    def begin(self) -> None:
        """Begin some work, on the thread of the recorder."""
        elapsed = self._clock() - self._since
        if elapsed >= _WINDOW_SECONDS:
            spent = self._event_loop()
            self._is_busy = spent - self._before >= elapsed * _BUSY
            self._since, self._before = self._since + elapsed, spent
        self._worked = self._recorder()

    def end(self) -> float:
        """End the work, and return the seconds to rest."""
        worked = self._recorder() - self._worked
        return min(_MAX_REST, worked / SHARE - worked) if self._is_busy else 0.0
