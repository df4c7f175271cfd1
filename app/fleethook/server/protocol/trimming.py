"""Returns free memory to the operating system.

glibc keeps the memory of a burst: each large body that is freed raises the size from which glibc maps memory separately
(mallopt(3), M_MMAP_THRESHOLD). Later bodies then leave holes in a heap that shrinks only at its end.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable
from typing import Final

# A smaller burst does not justify the walk through the heap.
_WORTH_BYTES: Final = 16 * 1024 * 1024
# The end of a burst: memory that is freed within a second goes back at once.
_BURST_SECONDS: Final = 1.0
# Parameters of mallopt, from glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
# An ordinary review is far smaller, so it never pays for a mapping. Larger bodies go back as soon as they are freed.
_MAPPED_BYTES: Final = 1024 * 1024
# The event loop has one heap, all threads share another. By default each thread gets its own on a machine with many
# cores, and every heap keeps the holes of its largest request.
_ARENAS: Final = 2


class Trimmer:
    """Returns free memory after every burst."""

    def __init__(self, trim: Callable[[], None] | None, *, seconds: float = _BURST_SECONDS) -> None:
        """Prepare.

        Args:
            trim: Returns free memory to the system; None to leave that to the C library.
            seconds: Delay from the release that completes a burst to the call of ``trim``.
        """
        self._trim: Final = trim
        self._seconds: Final = seconds
        self._freed = 0
        self._is_due = False

    def release(self, size: int) -> None:
        """Record that ``size`` bytes were freed."""
        self._freed += size
        if self._trim is not None and self._freed >= _WORTH_BYTES and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._seconds, self._run, self._trim)

    def _run(self, trim: Callable[[], None]) -> None:
        self._freed = 0
        self._is_due = False
        trim()


def tune_allocator() -> None:
    """Have glibc map large blocks separately and share heaps between threads; call it before threads start.

    After three minutes of the benchmark's soak, resident memory was 378 instead of 415 MiB, and it had grown by 12
    instead of 30 %. Other C libraries ignore the call or lack it.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def find_trim() -> Callable[[], None] | None:
    """Return glibc's function that returns free memory to the system, None for other libraries (musl, macOS)."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    malloc_trim.argtypes, malloc_trim.restype = [ctypes.c_size_t], ctypes.c_int

    def trim() -> None:
        malloc_trim(0)

    return trim
