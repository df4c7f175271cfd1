"""A cache of a limited size, whose entries expire and whose owners share the room fairly."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from fleethook.fairness.cache import FairCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ExpiringCache(Generic[Key, Value]):
    """Values by owner and key, each with a lifetime. A full cache evicts an entry of the owner with most entries."""

    def __init__(self, limit: int, *, clock: Callable[[], float]) -> None:
        """Prepare an empty cache.

        Args:
            limit: The maximum number of entries.
            clock: Returns a monotonic time in seconds.
        """
        self._entries: Final[FairCache[str, Key, tuple[float, Value]]] = FairCache(limit)
        self._clock: Final = clock

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, owner: str, key: Key) -> Value | None:
        """Return a value, None if there is none or it has expired."""
        found = self._entries.get(owner, key)
        if found is None:
            return None
        until, value = found
        if self._clock() >= until:
            self._entries.pop(owner, key)
            return None
        return value

    def put(self, owner: str, key: Key, value: Value, *, seconds: float) -> None:
        """Keep a value for some seconds, and replace an older value; without a positive lifetime keep none."""
        self._entries.pop(owner, key)
        if seconds > 0:
            self._entries.put(owner, key, (self._clock() + seconds, value))
            self._entries.evict()
