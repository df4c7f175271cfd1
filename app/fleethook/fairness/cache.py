"""Bounded caches that owners share fairly: an owner with many entries leaves room for those of the others."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Owner = TypeVar("Owner", bound=Hashable)


class FairCache(Generic[Owner, Key, Value]):
    """Values by owner and key. A full cache evicts the least recently used value of the owner with the most."""

    def __init__(
        self,
        limit: int,
        *,
        size_of: Callable[[Value], int] = lambda _: 1,
        is_idle: Callable[[Value], bool] = lambda _: True,
    ) -> None:
        """Prepare an empty cache.

        Args:
            limit: The maximum size of all values.
            size_of: Returns the size of a value.
            is_idle: Returns whether a value may be evicted. Values in use stay, even beyond the limit.
        """
        self._limit: Final = limit
        self._size_of: Final = size_of
        self._is_idle: Final = is_idle
        self._entries: Final[dict[Owner, OrderedDict[Key, Value]]] = {}
        self._sizes: Final[dict[Owner, int]] = {}
        self.size = 0
        """The size of all values."""

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def get(self, owner: Owner, key: Key) -> Value | None:
        """Return a value and mark it as recently used; None if it is missing."""
        entries = self._entries.get(owner)
        if entries is None or key not in entries:
            return None
        entries.move_to_end(key)
        return entries[key]

    def put(self, owner: Owner, key: Key, value: Value) -> None:
        """Add a value, and replace an older one. `evict` makes room for it."""
        self.pop(owner, key)
        self._entries.setdefault(owner, OrderedDict())[key] = value
        self._resize(owner, self._size_of(value))

    def pop(self, owner: Owner, key: Key) -> Value | None:
        """Remove a value and return it; None if it is missing."""
        entries = self._entries.get(owner)
        if entries is None or key not in entries:
            return None
        value = entries.pop(key)
        self._resize(owner, -self._size_of(value))
        return value

    def evict(self) -> Value | None:
        """Evict one value and return it; None if the limit is not exceeded or all values are in use."""
        if self.size <= self._limit:
            return None
        # Any other owner is asked only if all values of the largest one are in use.
        for owner in (max(self._sizes, key=self._sizes.__getitem__), *self._sizes):
            for key, value in self._entries[owner].items():
                if self._is_idle(value):
                    return self.pop(owner, key)
        return None

    def values(self) -> list[Value]:
        """Return all values."""
        return [value for entries in self._entries.values() for value in entries.values()]

    def _resize(self, owner: Owner, change: int) -> None:
        self.size += change
        self._sizes[owner] = self._sizes.get(owner, 0) + change
        if not self._entries[owner]:
            del self._entries[owner], self._sizes[owner]


class ExpiringCache(Generic[Key, Value]):
    """Values by owner and key, each with a lifetime."""

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
        """Store a value and replace an older one. If ``seconds`` is not positive, only remove the older one."""
        self._entries.pop(owner, key)
        if seconds > 0:
            self._entries.put(owner, key, (self._clock() + seconds, value))
            self._entries.evict()
