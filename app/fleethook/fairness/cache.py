"""Bounded caches that owners share fairly: an owner with many entries leaves room for those of the others."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

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
        """Store a value and replace an older one. If ``seconds`` is not positive, only remove the older one."""
        self._entries.pop(owner, key)
        if seconds > 0:
            self._entries.put(owner, key, (self._clock() + seconds, value))
            self._entries.evict()


Owner = TypeVar("Owner", bound=Hashable)


class FairCache(Generic[Owner, Key, Value]):
    """Values by owner and key. A full cache evicts the least recently used entry of the owner with most entries.

    `get`, `put` and `pop` take constant time, because owners are grouped by their number of entries. `evict` does, too,
    if no value is in use.
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
        """Evict one value and return it; None if the limit is not exceeded or all values are in use.

        The owner with most entries loses its least recently used idle value. If all its values are in use, the next
        owner does.
        """
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
        """Move an owner to the group of its current number of entries.

        Args:
            owner: The owner.
            before: Its former number of entries.
        """
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


# An entry is stale if its owner made more than this many look-ups per cached entry since the entry's last hit.
_STALE_AFTER: Final = 8


class Sized(Protocol):
    """A value with a size."""

    @property
    def size(self) -> int:
        """The part of the limit that the value takes."""


SizedValue = TypeVar("SizedValue", bound=Sized)


class _Share(Generic[SizedValue]):
    """The values of one owner, the least recently used one first, and their size."""

    __slots__ = ("entries", "lookups", "size")

    def __init__(self) -> None:
        self.entries: dict[str, tuple[SizedValue, int]] = {}
        self.lookups = 0
        self.size = 0

    def has_stale(self) -> bool:
        """Return whether the least recently used value is stale."""
        _, read = next(iter(self.entries.values()))
        return self.lookups - read > _STALE_AFTER * len(self.entries)

    def drop_first(self) -> int:
        """Remove the least recently used value and return its size."""
        value, _ = self.entries.pop(next(iter(self.entries)))
        self.size -= value.size
        return value.size


class SizedCache(Generic[SizedValue]):
    """Values by owner and key, each with a size.

    Owners above their fair share make room for other owners. An owner whose values do not all fit keeps its cached
    values until they are stale. If it replaced the oldest one each time, as a `FairCache` does, values that are read
    in turn would never be found.
    """

    def __init__(self, limit: int) -> None:
        """Create an empty cache; ``limit`` bounds the size of all values together."""
        self._limit: Final = limit
        self._shares: Final[dict[str, _Share[SizedValue]]] = {}
        self.size = 0
        """The size of all values."""

    def get(self, owner: str, key: str) -> SizedValue | None:
        """Return a value and mark it as recently used; None if it is missing."""
        share = self._shares.get(owner)
        if share is None:
            return None
        share.lookups += 1
        found = share.entries.pop(key, None)
        if found is None:
            return None
        share.entries[key] = (found[0], share.lookups)
        return found[0]

    def put(self, owner: str, key: str, value: SizedValue) -> None:
        """Add a value, if its key is not in the cache and there is room for it."""
        share = self._shares.setdefault(owner, _Share())
        if key in share.entries or not self._make_room(share, value.size):
            if not share.entries:
                del self._shares[owner]
            return
        share.entries[key] = (value, share.lookups)
        share.size += value.size
        self.size += value.size

    def _make_room(self, share: _Share[SizedValue], size: int) -> bool:
        fair = self._limit // len(self._shares)
        if size > self._limit:
            return False
        while self.size + size > self._limit:
            owner, largest = max(self._shares.items(), key=lambda item: item[1].size)
            grows = largest is share or share.size + size > fair
            if grows and not largest.has_stale():
                return False
            self.size -= largest.drop_first()
            if not largest.entries and largest is not share:
                # Drop the empty share: it would reduce the fair share of the other owners.
                del self._shares[owner]
        return True
