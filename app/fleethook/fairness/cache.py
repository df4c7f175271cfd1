"""A bounded cache that owners share fairly: an owner with many entries evicts its own ones first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

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


Owner = TypeVar("Owner", bound=Hashable)


class FairCache(Generic[Owner, Key, Value]):
    """Values by owner and key. A full cache evicts the least recently used entry of the owner with most entries.

    All operations take constant time, because owners are grouped by their number of entries.
    """

    def __init__(self, limit: int, *, is_idle: Callable[[Value], bool] = lambda _: True) -> None:
        """Prepare an empty cache.

        Args:
            limit: The maximum number of entries.
            is_idle: Returns whether a value may be evicted. Values in use stay, even beyond the limit.
        """
        self._limit: Final = limit
        self._is_idle: Final = is_idle
        self._entries: Final[dict[Owner, OrderedDict[Key, Value]]] = {}
        self._owners_by_size: Final[dict[int, OrderedDict[Owner, None]]] = {}
        self._largest = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, owner: Owner, key: Key) -> Value | None:
        """Return a value and mark it as recently used; None if it is missing."""
        entries = self._entries.get(owner)
        if entries is None or key not in entries:
            return None
        entries.move_to_end(key)
        return entries[key]

    def put(self, owner: Owner, key: Key, value: Value) -> None:
        """Add a value under a key that is not in the cache."""
        entries = self._entries.setdefault(owner, OrderedDict())
        entries[key] = value
        self._resize(owner, len(entries) - 1)

    def pop(self, owner: Owner, key: Key) -> Value | None:
        """Remove a value and return it; None if it is missing."""
        entries = self._entries.get(owner)
        if entries is None or key not in entries:
            return None
        value = entries.pop(key)
        self._resize(owner, len(entries) + 1)
        return value

    def evict(self) -> Value | None:
        """Evict one value of the owner with most entries and return it; None below the limit or if all are in use."""
        if self._count <= self._limit:
            return None
        for size in range(self._largest, 0, -1):
            for owner in self._owners_by_size.get(size, ()):
                entries = self._entries[owner]
                key = next((key for key, value in entries.items() if self._is_idle(value)), None)
                if key is not None:
                    return self.pop(owner, key)
        return None

    def values(self) -> list[Value]:
        """Return all values."""
        return [value for entries in self._entries.values() for value in entries.values()]

    def _resize(self, owner: Owner, before: int) -> None:
        """Move an owner to the group of its present number of entries."""
        size = len(self._entries[owner])
        if before:
            group = self._owners_by_size[before]
            del group[owner]
            if not group:
                del self._owners_by_size[before]
        if size:
            self._owners_by_size.setdefault(size, OrderedDict())[owner] = None
        else:
            del self._entries[owner]
        self._count += size - before
        self._largest = max(self._largest, size)
        while self._largest and self._largest not in self._owners_by_size:
            self._largest -= 1
