"""What feeds the store."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class PartState(NamedTuple):
    """How one part of a source stands: a directory, a resource."""

    name: str
    synced: bool
    """Whether the store has held this part whole since the start, or knows that there is none."""
    detail: str
    """What is wrong or unusual at the moment, ``""`` if nothing is."""
    age: float | None
    """Seconds since this part last agreed with the store for certain, None before it first did."""
    failing: bool
    """Whether it cannot be read just now, so that the store holds its last good state."""
    refused: bool = False
    """Whether it was never read because the other side fails to answer, again and again: no replica could read it."""
    needed: bool = True
    """Whether any answer depends on it."""


class Source(Protocol):
    """Keeps a store equal to something outside."""

    @property
    def synced(self) -> bool:
        """Whether every part has been read once."""

    def parts(self) -> Iterator[PartState]:
        """Yield the state of every part."""
