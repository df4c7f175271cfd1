"""Clients, and slots, shares and caches that they share fairly: many requests of one do not delay the others."""

import asyncio
import contextlib
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, NamedTuple, TypeVar


class Shares:
    """An amount that consumers hold.

    A consumer may hold as much as is free, or a multiple of the free amount ("dynamic thresholds", Choudhury and Hahne,
    IEEE/ACM Transactions on Networking 6(2), 1998). So a single consumer gets half, two consumers get a third each,
    and a further consumer always finds room.
    """

    def __init__(self, limit: int, *, multiple: int = 1) -> None:
        """Prepare.

        Args:
            limit: The amount of all consumers together.
            multiple: The multiple of the free amount that a consumer may hold. A single consumer gets the fraction
                ``multiple / (multiple + 1)`` of the limit.
        """
        self.limit: Final = limit
        self._multiple: Final = multiple
        self.held: Final[Counter[str]] = Counter()
        """The amounts by consumer, without consumers that hold nothing."""
        self.total = 0
        """The amount that all consumers hold."""

    def allows(self, consumer: str, size: int) -> bool:
        """Return whether a consumer may take an amount."""
        free = self.limit - self.total
        return size <= free and self.held.get(consumer, 0) + size <= self._multiple * free

    def take(self, consumer: str, size: int) -> bool:
        """Take an amount and return True, or return False if there is no room for it."""
        if not self.allows(consumer, size):
            return False
        self.held[consumer] += size
        self.total += size
        return True

    def move(self, size: int, *, source: str, target: str) -> bool:
        """Move an amount from one consumer to another and return True; return False if the target may not hold it."""
        free = self.limit - self.total + size
        if self.held.get(target, 0) + size > self._multiple * free:
            return False
        self.held[target] += size
        self.held[source] -= size
        if not self.held[source]:
            del self.held[source]
        return True

    def give_back(self, consumer: str, size: int) -> None:
        """Release an amount."""
        self.total -= size
        self.held[consumer] -= size
        if not self.held[consumer]:
            del self.held[consumer]


def name_account(cluster: str) -> str:
    """Return the client to which the connections and bodies of a logical cluster count."""
    return f"logical cluster {cluster}"


def client_of(address: tuple[str, int] | None) -> str:
    """Return the client to which an address counts: the host, or in IPv6 its /64 network, which a host may own.

    Args:
        address: Host and port, as in ASGI's ``client``.
    """
    if address is None:
        return ""
    host = address[0]
    if ":" not in host:
        return host
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    assert isinstance(parsed, IPv6Address)
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))


Item = TypeVar("Item", bound=Hashable)


class Lanes(Generic[Item]):
    """Items in the order of their arrival within a lane.

    Lanes take turns; a lane is, for example, a logical cluster. All operations take constant time, except that `take`
    skips lanes that are not eligible.
    """

    __slots__ = ("_count", "_lanes")

    def __init__(self) -> None:
        """Begin empty."""
        self._lanes: Final[OrderedDict[Hashable, dict[Item, None]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._count

    def __iter__(self) -> Iterator[Hashable]:
        """Return the lanes with items, in the order of their turns."""
        return iter(self._lanes)

    def __contains__(self, lane: Hashable) -> bool:
        """Return whether a lane has items."""
        return lane in self._lanes

    def has(self, lane: Hashable, item: Item) -> bool:
        """Return whether an item waits in a lane."""
        return item in self._lanes.get(lane, ())

    def add(self, lane: Hashable, item: Item) -> None:
        """Append an item to its lane. The item must not be in the lane already."""
        items = self._lanes.get(lane)
        if items is None:
            items = self._lanes[lane] = {}
        items[item] = None
        self._count += 1

    def discard(self, lane: Hashable, item: Item) -> bool:
        """Remove an item, and return whether it waited."""
        if not self.has(lane, item):
            return False
        self._remove(lane, self._lanes[lane], item)
        return True

    def take(self, eligible: Callable[[Hashable], bool] = lambda _: True) -> Item | None:
        """Remove and return the first item of the next eligible lane; None if no eligible lane has one."""
        for lane in self._lanes:
            if eligible(lane):
                return self.take_from(lane)
        return None

    def take_from(self, lane: Hashable) -> Item:
        """Remove and return the first item of a lane that has items, and move the lane behind the other lanes."""
        items = self._lanes[lane]
        item = next(iter(items))
        self._remove(lane, items, item)
        if items:
            self._lanes.move_to_end(lane)
        return item

    def _remove(self, lane: Hashable, items: dict[Item, None], item: Item) -> None:
        del items[item]
        self._count -= 1
        if not items:
            del self._lanes[lane]


Turn = asyncio.Future[None]
"""The future of a caller that waits for a slot."""


class Limits(NamedTuple):
    """Maximum numbers of slots that are held at a time."""

    total: int
    """All slots."""
    reserved: int = 0
    """The part of all slots that is kept for lanes without a slot. Each of them gets one."""
    each: int = sys.maxsize
    """Slots of one lane."""
    part: int = sys.maxsize
    """Slots of one part of a lane, for example of one endpoint that a consumer calls."""


class _Lane:
    """The slots that a lane holds, and the callers that wait for its next ones."""

    __slots__ = ("held", "parts", "waiting")

    def __init__(self) -> None:
        self.held = 0
        self.parts: Final[Counter[Hashable]] = Counter()
        # Here, the lanes are the parts of this lane.
        self.waiting: Final = Lanes[Turn]()


class Slots:
    """Grants slots within limits. The lane with the fewest slots is next, and lanes with equal numbers take turns.

    The parts of a lane take turns, too. Lanes without slots and callers take no memory.
    """

    def __init__(self, limits: Limits) -> None:
        """Prepare."""
        self.limits: Final = limits
        self._shared: Final = limits.total - limits.reserved
        self._lanes: Final[dict[Hashable, _Lane]] = {}
        # The lanes with waiting callers in the order of their turns.
        self._order: Final[OrderedDict[Hashable, None]] = OrderedDict()
        self.held = 0
        """Slots that are held."""
        self.queued = 0
        """Callers that wait."""

    def count(self, lane: Hashable) -> int:
        """Return how many callers of a lane hold a slot or wait."""
        state = self._lanes.get(lane)
        return 0 if state is None else state.held + len(state.waiting)

    def waiting(self, lane: Hashable) -> int:
        """Return how many callers of a lane wait."""
        state = self._lanes.get(lane)
        return 0 if state is None else len(state.waiting)

    def held_by_lane(self) -> dict[Hashable, int]:
        """Return the number of slots of each lane that holds some."""
        return {lane: state.held for lane, state in self._lanes.items() if state.held}

    @contextlib.asynccontextmanager
    async def hold(self, lane: Hashable, part: Hashable = None) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the context is open."""
        turn = self.join(lane, part)
        if turn is not None:
            await self.wait(turn, lane, part)
        try:
            yield
        finally:
            self.release(lane, part)

    def join(self, lane: Hashable, part: Hashable = None) -> Turn | None:
        """Take a slot and return None, or return a turn that the caller must `wait` for. A cancelled turn gets none."""
        if self.allows(lane, part):
            self.take(lane, part)
            return None
        turn: Turn = asyncio.get_running_loop().create_future()
        self._lanes.setdefault(lane, _Lane()).waiting.add(part, turn)
        self.queued += 1
        self._order.setdefault(lane)
        return turn

    async def wait(self, turn: Turn, lane: Hashable, part: Hashable = None) -> None:
        """Wait for a turn from `join`. A cancelled caller gives up its turn, or its slot if it has one already."""
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.release(lane, part)
            elif (state := self._lanes.get(lane)) is not None and state.waiting.discard(part, turn):
                self._note_removed(lane, state)
            raise

    def allows(self, lane: Hashable, part: Hashable = None) -> bool:
        """Return whether a caller may take a slot now: the limits permit it, and no caller of the same part waits."""
        state = self._lanes.get(lane)
        if state is None:
            return self.held < self.limits.total
        return self._permits(state, part) and part not in state.waiting

    def find_exhausted(self, lane: Hashable, part: Hashable = None) -> str:
        """Return the field of `Limits` that makes a caller wait, ``""`` if none does."""
        state = self._lanes.get(lane) or _Lane()
        if state.parts[part] >= self.limits.part:
            return "part"
        if state.held >= self.limits.each:
            return "each"
        return "" if self._permits(state, part) else "total"

    def take(self, lane: Hashable, part: Hashable = None) -> None:
        """Take a slot that `allows` permits."""
        self._start(self._lanes.setdefault(lane, _Lane()), part)

    def release(self, lane: Hashable, part: Hashable = None) -> None:
        """Give a slot back, and grant it to the next waiting caller."""
        state = self._lanes[lane]
        self.held -= 1
        state.held -= 1
        state.parts[part] -= 1
        if not state.parts[part]:
            del state.parts[part]
        self._forget_unused(lane, state)
        while self.queued and self._grant():
            pass

    def _forget_unused(self, lane: Hashable, state: _Lane) -> None:
        if not state.held and not state.waiting:
            del self._lanes[lane]

    def _permits(self, state: _Lane, part: Hashable) -> bool:
        if self.held >= self.limits.total or state.parts[part] >= self.limits.part:
            return False
        return not state.held or (state.held < self.limits.each and self.held < self._shared)

    def _start(self, state: _Lane, part: Hashable) -> None:
        self.held += 1
        state.held += 1
        state.parts[part] += 1

    def _note_removed(self, lane: Hashable, state: _Lane) -> None:
        self.queued -= 1
        if not state.waiting:
            del self._order[lane]
        self._forget_unused(lane, state)

    def _grant(self) -> bool:
        """Grant a slot to the next waiting caller; return whether the limits allow one."""
        found = self._find_next()
        if found is None:
            return False
        lane, part = found
        state = self._lanes[lane]
        turn = state.waiting.take_from(part)
        if not turn.cancelled():
            self._start(state, part)
            turn.set_result(None)
        self._note_removed(lane, state)
        if lane in self._order:
            self._order.move_to_end(lane)
        return True

    def _find_next(self) -> tuple[Hashable, Hashable] | None:
        """Return the lane and the part of the next caller, None if the limits allow none."""
        best: tuple[Hashable, Hashable] | None = None
        fewest = sys.maxsize
        for lane in self._order:
            state = self._lanes[lane]
            part = next((one for one in state.waiting if state.held < fewest and self._permits(state, one)), _NONE)
            if part is not _NONE:
                best, fewest = (lane, part), state.held
            if not fewest:
                break
        return best


_NONE: Final = object()


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
