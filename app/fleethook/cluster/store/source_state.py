"""The interface of sources, which feed the store."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class PartState(NamedTuple):
    """The state of one part of a source: a directory or a resource."""

    name: str
    synced: bool
    """Whether the store has held all objects of this part, or the server is known not to serve it."""
    detail: str
    """The current problem or peculiarity, ``""`` if there is none."""
    age: float | None
    """Seconds since the store was last known to equal this part, None before the first time."""
    failing: bool
    """Whether reading fails at the moment; the store then holds the last good state."""
    refused: bool = False
    """Whether it was never read because the server failed each time: other replicas could not read it either."""
    needed: bool = True
    """Whether any response depends on it."""


class Source(Protocol):
    """Keeps a store equal to an outside system."""

    @property
    def synced(self) -> bool:
        """Whether every part has been read once."""

    def parts(self) -> Iterator[PartState]:
        """Yield the state of every part."""


class StaleError(Exception):
    """The objects that the answer depends on cannot be read now, so the caller has to retry."""
