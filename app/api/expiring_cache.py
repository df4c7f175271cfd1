"""A cache that is bounded in time and in number, whose room owners share fairly."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from app.outbound.fair_cache import FairCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ExpiringCache(Generic[Key, Value]):
    """Values by owner and key, each for a time of its own. A full cache loses an entry of the owner with the most."""

    def __init__(self, limit: int, *, clock: Callable[[], float]) -> None:
        """Prepare an empty cache.

        Args:
            limit: Entries that are kept.
            clock: Returns the time in seconds; it never goes back.
        """
        self._entries: Final[FairCache[str, Key, tuple[float, Value]]] = FairCache(limit)
        self._clock: Final = clock

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, owner: str, key: Key) -> Value | None:
        """Return a value, None if there is none or its time is over."""
        found = self._entries.get(owner, key)
        if found is None:
            return None
        until, value = found
        if self._clock() >= until:
            self._entries.pop(owner, key)
            return None
        return value

    def put(self, owner: str, key: Key, value: Value, *, seconds: float) -> None:
        """Keep a value for a time; not at all if that is no time."""
        self._entries.pop(owner, key)
        if seconds > 0:
            self._entries.put(owner, key, (self._clock() + seconds, value))
            self._entries.evict()
