"""Limits and a cache that consumers share fairly: many requests of one consumer do not delay those of the others.

A consumer is, for example, a logical cluster, the address of a client or a script. There are three limits for each:
calls (`CallLimit`), bytes (`fleethook.server.protocol.bodies.BodyBudget`) and seconds (the deadlines of callers).
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar


class Limit:
    """An amount that consumers hold.

    A consumer may hold as much as is free ("dynamic thresholds", Choudhury and Hahne, IEEE/ACM Transactions on
    Networking 6(2), 1998). So a single consumer gets half, two consumers get a third each, and a further consumer
    always finds room. If a consumer may hold only a part of the free amount, many greedy ones leave room, too.
    """

    def __init__(self, limit: int, *, part: int = 1) -> None:
        """Prepare.

        Args:
            limit: The amount of all consumers together.
            part: A consumer may hold one ``part``-th of the free amount, and 1 in any case.
        """
        self.limit: Final = limit
        self._part: Final = part
        self.held: Final[Counter[str]] = Counter()
        """The amounts by consumer, without consumers that hold nothing."""
        self.total = 0
        """The amount that all consumers hold."""
        self.refused = 0
        """Callers that found no room in time."""

    def allows(self, consumer: str, size: int = 1) -> bool:
        """Return whether a consumer may take an amount."""
        free = self.limit - self.total
        return size <= free and self.held.get(consumer, 0) + size <= max(1, free // self._part)

    def take(self, consumer: str, size: int = 1) -> bool:
        """Take an amount and return True, or return False if there is no room for it."""
        if not self.allows(consumer, size):
            return False
        self.held[consumer] += size
        self.total += size
        return True

    def release(self, consumer: str, size: int = 1) -> None:
        """Give an amount back."""
        self.total -= size
        self.held[consumer] -= size
        if not self.held[consumer]:
            del self.held[consumer]


class LimitError(Exception):
    """There was no room within a limit in time."""


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


class FairQueue(Generic[Item]):
    """Items that wait, in the order of their arrival for each consumer; consumers take turns."""

    def __init__(self) -> None:
        self._waiting: Final[OrderedDict[str, dict[Item, None]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def count(self, consumer: str) -> int:
        """Return the number of items of a consumer."""
        return len(self._waiting.get(consumer, ()))

    def has(self, consumer: str, item: Item) -> bool:
        """Return whether an item of a consumer waits."""
        return item in self._waiting.get(consumer, ())

    def add(self, consumer: str, item: Item) -> None:
        """Append an item, unless the consumer has it already."""
        self._waiting.setdefault(consumer, {}).setdefault(item)

    def discard(self, consumer: str, item: Item) -> None:
        """Remove an item if it waits."""
        items = self._waiting.get(consumer, {})
        items.pop(item, None)
        if not items:
            self._waiting.pop(consumer, None)

    def take(self, allows: Callable[[str], bool]) -> tuple[str, Item] | None:
        """Remove and return the next consumer that may have a turn, with its first item; None without one."""
        consumer = next(filter(allows, self._waiting), None)
        if consumer is None:
            return None
        item = next(iter(self._waiting[consumer]))
        self._waiting.move_to_end(consumer)
        self.discard(consumer, item)
        return consumer, item


Turn = asyncio.Future[None]
"""The future of a caller that waits."""
MAX_WAITING: Final = 1_024
"""Callers of one consumer that wait with a deadline. More would only wait until it has passed."""
MAX_WEBHOOK_CALLS: Final = 512
"""Webhook calls in flight of all consumers. Each call uses one connection."""
WEBHOOK_CALLS_PART: Final = 8
"""A single consumer gets 57 calls. The TLS handshakes of 200 delay other consumers of the same webhook by a second."""


class CallLimit(Limit):
    """A limit of calls at a time; others wait. A call counts from `join`, `wait` or `hold` to `release`."""

    def __init__(self, limit: int, *, part: int = 1) -> None:
        """Prepare; arguments as in `Limit`."""
        super().__init__(limit, part=part)
        self._queue: Final = FairQueue[Turn]()

    @property
    def waiting(self) -> int:
        """The number of callers that wait."""
        return len(self._queue)

    def count(self, consumer: str) -> int:
        """Return how many calls of a consumer run or wait."""
        return self.held.get(consumer, 0) + self._queue.count(consumer)

    @contextlib.asynccontextmanager
    async def hold(self, consumer: str, *, seconds: float | None = None) -> AsyncIterator[bool]:
        """Count a call while the context is open; yields whether it had to wait.

        Args:
            consumer: The consumer.
            seconds: The longest time to wait; None to wait for ever.

        Raises:
            LimitError: The call could not start in that time, or too many calls of the consumer wait already.
        """
        turn = self.join(consumer)
        if turn is not None:
            try:
                async with asyncio.timeout(seconds if self._queue.count(consumer) <= MAX_WAITING else 0):
                    await self.wait(turn, consumer)
            except TimeoutError:
                self.refused += 1
                raise LimitError from None
        try:
            yield turn is not None
        finally:
            self.release(consumer)

    def join(self, consumer: str) -> Turn | None:
        """Start a call and return None, or return a turn that the caller must `wait` for."""
        # Callers that wait have room as soon as there is some, so no caller overtakes others of the same consumer.
        if self.take(consumer):
            return None
        turn: Turn = asyncio.get_running_loop().create_future()
        self._queue.add(consumer, turn)
        return turn

    async def wait(self, turn: Turn, consumer: str) -> None:
        """Wait for a turn from `join`. A cancelled caller gives up its turn, or its call if it has started already."""
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._queue.discard(consumer, turn)
            else:
                self.release(consumer)
            raise

    def release(self, consumer: str, size: int = 1) -> None:
        """End a call, and start the next ones."""
        super().release(consumer, size)
        while (found := self._queue.take(self.allows)) is not None:
            following, turn = found
            if not turn.cancelled():
                self.take(following)
                turn.set_result(None)


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class FairCache(Generic[Key, Value]):
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
        self._entries: Final[dict[Hashable, OrderedDict[Key, Value]]] = {}
        self._sizes: Final[Counter[Hashable]] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def get(self, owner: Hashable, key: Key) -> Value | None:
        """Return a value and mark it as recently used; None if it is missing."""
        entries = self._entries.get(owner)
        if entries is None or key not in entries:
            return None
        entries.move_to_end(key)
        return entries[key]

    def put(self, owner: Hashable, key: Key, value: Value) -> list[Value]:
        """Add a value, replace an older one, and return the values that were evicted to make room."""
        if key in self._entries.get(owner, ()):
            self._remove(owner, key)
        self._entries.setdefault(owner, OrderedDict())[key] = value
        self._sizes[owner] += self._size_of(value)
        evicted = []
        while self._sizes.total() > self._limit and (found := self._find_idle()) is not None:
            evicted.append(self._remove(*found))
        return evicted

    def values(self) -> list[Value]:
        """Return all values."""
        return [value for entries in self._entries.values() for value in entries.values()]

    def _find_idle(self) -> tuple[Hashable, Key] | None:
        """Return owner and key of the value to evict, None if all values are in use."""
        # Any other owner is asked only if all values of the largest one are in use.
        for owner in (max(self._sizes, key=self._sizes.__getitem__), *self._sizes):
            for key, value in self._entries[owner].items():
                if self._is_idle(value):
                    return owner, key
        return None

    def _remove(self, owner: Hashable, key: Key) -> Value:
        value = self._entries[owner].pop(key)
        self._sizes[owner] -= self._size_of(value)
        if not self._entries[owner]:
            del self._entries[owner], self._sizes[owner]
        return value
