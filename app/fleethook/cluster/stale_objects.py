"""The state of the parts of a source, and when the objects of one are too old to answer from them."""

from typing import Final, NamedTuple

STALE_SECONDS: Final = 180.0
"""Without an answer from the apiserver, until objects are stale. An unchanged resource gets a bookmark each minute."""


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

    @property
    def is_stale(self) -> bool:
        """Whether the apiserver has not answered for a long time."""
        return self.age is not None and self.age > STALE_SECONDS

    @property
    def stale_detail(self) -> str:
        """`detail`, after the seconds without an answer of the apiserver."""
        staleness = f"no update from the apiserver for {self.age:.0f} s, answering from the last known objects"
        return f"{staleness}: {self.detail}" if self.detail else staleness


class StaleError(Exception):
    """The objects that the answer depends on cannot be read now, so the caller has to retry."""
