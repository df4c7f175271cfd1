"""Returns memory to the operating system after large Lua machines are freed."""

import ctypes
from collections.abc import Callable
from functools import lru_cache


@lru_cache(maxsize=1)
def _find_malloc_trim() -> Callable[[int], object] | None:
    """Return glibc's malloc_trim; None for other C libraries, which keep little free memory."""
    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


def trim_memory() -> None:
    """Return the free memory of all threads. Takes milliseconds, without the GIL."""
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)
