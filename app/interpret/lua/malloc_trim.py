"""Giving memory back to the operating system once large Lua machines are gone."""

import ctypes
from collections.abc import Callable
from functools import lru_cache


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], object] | None:
    """Return glibc's function, None for other C libraries, which keep little."""
    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


def trim_memory() -> None:
    """Give free memory of all threads back. Takes milliseconds, without Python's lock."""
    trim = _trim()
    if trim is not None:
        trim(0)
