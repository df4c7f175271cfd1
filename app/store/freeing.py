"""Freeing many objects without keeping the event loop from reviews."""

import asyncio
from typing import Final

from app.store.store import Stored

# Some 10 ms, where the objects are whole documents.
_FREED_AT_ONCE: Final = 200


def free_in_slices(objects: list[Stored]) -> None:
    """Empty a list of objects that nobody else refers to; each turn of the event loop frees a slice of it."""
    del objects[-_FREED_AT_ONCE:]
    if objects:
        asyncio.get_running_loop().call_soon(free_in_slices, objects)
