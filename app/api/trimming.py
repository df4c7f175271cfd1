"""Giving free memory back to the operating system.

glibc keeps the memory that a burst has freed: large bodies raise the size from which it maps memory separately
(mallopt(3), M_MMAP_THRESHOLD), and from then on they leave holes in a heap that shrinks only at its end.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

# Below this, a burst is not worth the walk through the heap.
_WORTH_BYTES: Final = 16 * 1024 * 1024
# The end of a burst: memory that is freed within a second goes back at once.
_SECONDS: Final = 1.0


class Trimmer:
    """Gives memory back after every burst."""

    def __init__(self, trim: Callable[[], None] | None, *, seconds: float = _SECONDS) -> None:
        """Prepare.

        Args:
            trim: Gives free memory back; None to leave that to the C library.
            seconds: From the release that makes a burst to the call of ``trim``.
        """
        self._trim: Final = trim
        self._seconds: Final = seconds
        self._freed = 0
        self._is_due = False

    def release(self, size: int) -> None:
        """Take note that ``size`` bytes were freed."""
        self._freed += size
        if self._trim is not None and self._freed >= _WORTH_BYTES and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._seconds, self._run, self._trim)

    def _run(self, trim: Callable[[], None]) -> None:
        self._freed = 0
        self._is_due = False
        trim()


def find_trim() -> Callable[[], None] | None:
    """Return a function that has the C library give memory back, None if it has none (musl, macOS)."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    malloc_trim.argtypes, malloc_trim.restype = [ctypes.c_size_t], ctypes.c_int

    def trim() -> None:
        malloc_trim(0)

    return trim
