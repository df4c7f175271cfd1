"""Keeps the recorder from taking the processor from the event loop.

The kernel counts the time for which a thread was ready to run and had no core (``schedstat``). If the event loop waits
while the recorder works, the recorder rests, so that its share of the time stays small. The queue may then overflow.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

SHARE: Final = 0.025
"""The largest share of the time for which the recorder works while the event loop lacks a core."""
_MAX_REST: Final = 1.0
# The part of the recorder's time for which the event loop has to wait until they count as sharing a core.
_CONTENDED: Final = 0.25


def read_wait(thread: int) -> float:
    """Return the seconds for which a thread of this process has waited for a core, 0 if the kernel does not tell."""
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text("ascii").split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


class Throttle:
    """Computes the time for which the recorder rests."""

    def __init__(
        self,
        thread: int,
        *,
        read_wait: Callable[[int], float] = read_wait,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Initialize the throttle.

        Args:
            thread: The native id of the event loop's thread.
            read_wait: Returns the seconds for which a thread has waited for a core.
            clock: Returns the seconds of processor time of the calling thread.
        """
        self._thread: Final = thread
        self._read_wait: Final = read_wait
        self._clock: Final = clock
        self._waited = read_wait(thread)
        self._worked = 0.0

    def begin(self) -> None:
        """Begin some work, on the thread of the recorder."""
        self._waited, self._worked = self._read_wait(self._thread), self._clock()

    def end(self) -> float:
        """End the work, and return the seconds to rest."""
        worked = self._clock() - self._worked
        waited = self._read_wait(self._thread) - self._waited
        if waited < worked * _CONTENDED:
            return 0.0
        return min(_MAX_REST, worked / SHARE - worked)
