"""How many calls may be under way, shared fairly between the logical clusters that cause them."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from typing import Final, NamedTuple

STARTS_PER_TURN: Final = 4
"""Calls that start in one turn of the event loop. A new connection costs a TLS handshake, 1 to 2 ms of the loop."""
_WAITING_PER_CALL: Final = 8
_RESERVE: Final = 2


class Quotas(NamedTuple):
    """Calls under way at a time. A call holds one connection, so these are bounds for connections, too."""

    connections: int = 32
    """Of one consumer to one endpoint."""
    calls: int = 128
    """Of one consumer to all endpoints."""
    total: int = 512
    """Of all consumers. A consumer without a call under way gets one beyond this, up to twice as many in total."""


class FullError(Exception):
    """No slot became free in time.

    Attributes:
        limit: Which quota was used up: ``connections``, ``calls`` or ``total``.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit: Final = limit


class _Waiter(NamedTuple):
    endpoint: Hashable
    granted: "asyncio.Future[None]"


class _Consumer:
    """Calls of one consumer: those under way, by endpoint, and those that wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.by_endpoint: Final[dict[Hashable, int]] = {}
        self.waiting: Final[OrderedDict[Hashable, deque[_Waiter]]] = OrderedDict()
        self.queued = 0

    @property
    def is_gone(self) -> bool:
        return not self.calls and not self.queued


class CallSlots:
    """Admits calls within quotas. The consumer with the fewest calls under way is next, first come first served.

    State is kept for consumers with calls only, so it is bounded by the requests in flight.
    """

    def __init__(self, quotas: Quotas) -> None:
        """Prepare."""
        self.quotas: Final = quotas
        self._consumers: Final[dict[str, _Consumer]] = {}
        self._waiting: Final[OrderedDict[str, None]] = OrderedDict()
        self._starts = 0
        self._turn: asyncio.Handle | None = None
        self.under_way = 0
        self.queued = 0
        self.refused: Final = dict.fromkeys(Quotas._fields, 0)

    def by_consumer(self) -> dict[str, int]:
        """Return how many calls are under way for each consumer that has any."""
        return {name: state.calls for name, state in self._consumers.items() if state.calls}

    @contextlib.asynccontextmanager
    async def hold(self, consumer: str, endpoint: Hashable, *, seconds: float) -> AsyncIterator[bool]:
        """Hold a slot for one call; yields whether it had to wait.

        Args:
            consumer: The logical cluster of the request.
            endpoint: Where the call goes.
            seconds: How long to wait for the slot.

        Raises:
            FullError: There was none in that time, or too many calls of the consumer wait already.
        """
        waited = await self._acquire(consumer, endpoint, seconds)
        try:
            yield waited
        finally:
            self._release(consumer, endpoint)

    async def take_turn(self) -> None:
        """Wait for a turn of the event loop in which a call that holds a slot may connect once more."""
        self._begin_turn()
        while self._starts >= STARTS_PER_TURN:
            await asyncio.sleep(0)
            self._begin_turn()
        self._starts += 1

    async def _acquire(self, consumer: str, endpoint: Hashable, seconds: float) -> bool:
        state = self._consumers.setdefault(consumer, _Consumer())
        self._begin_turn()
        if self._starts < STARTS_PER_TURN and endpoint not in state.waiting and not self._barrier(state, endpoint):
            self._start(state, endpoint)
            return False
        if state.queued >= self.quotas.calls * _WAITING_PER_CALL:
            raise self._full(state, endpoint)
        waiter = _Waiter(endpoint, asyncio.get_running_loop().create_future())
        self._enqueue(consumer, state, waiter)
        try:
            async with asyncio.timeout(seconds):
                await self._granted(consumer, waiter)
        except TimeoutError:
            raise self._full(state, endpoint) from None
        finally:
            if waiter.granted.cancelled():
                self._dequeue(consumer, state, waiter)
        return True

    async def _granted(self, consumer: str, waiter: _Waiter) -> None:
        """Wait for a slot, and give it back if the caller left in the moment in which it was granted."""
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if not waiter.granted.cancelled():
                self._release(consumer, waiter.endpoint)
            raise

    def _barrier(self, state: _Consumer, endpoint: Hashable) -> str:
        """Return the quota that keeps a call from starting, ``""`` if none does."""
        if state.by_endpoint.get(endpoint, 0) >= self.quotas.connections:
            return "connections"
        if state.calls >= self.quotas.calls:
            return "calls"
        total = self.quotas.total if state.calls else self.quotas.total * _RESERVE
        return "total" if self.under_way >= total else ""

    def _full(self, state: _Consumer, endpoint: Hashable) -> FullError:
        limit = self._barrier(state, endpoint) or "calls"
        self.refused[limit] += 1
        return FullError(limit)

    def _start(self, state: _Consumer, endpoint: Hashable) -> None:
        self._starts += 1
        self.under_way += 1
        state.calls += 1
        state.by_endpoint[endpoint] = state.by_endpoint.get(endpoint, 0) + 1

    def _release(self, consumer: str, endpoint: Hashable) -> None:
        state = self._consumers[consumer]
        self.under_way -= 1
        state.calls -= 1
        state.by_endpoint[endpoint] -= 1
        if not state.by_endpoint[endpoint]:
            del state.by_endpoint[endpoint]
        if state.is_gone:
            del self._consumers[consumer]
        if self._waiting:
            self._begin_turn()
            self._grant()

    def _enqueue(self, consumer: str, state: _Consumer, waiter: _Waiter) -> None:
        state.waiting.setdefault(waiter.endpoint, deque()).append(waiter)
        state.queued += 1
        self.queued += 1
        self._waiting.setdefault(consumer)

    def _dequeue(self, consumer: str, state: _Consumer, waiter: _Waiter) -> None:
        queue = state.waiting.get(waiter.endpoint, deque())
        if waiter not in queue:
            return
        queue.remove(waiter)
        if not queue:
            del state.waiting[waiter.endpoint]
        state.queued -= 1
        self.queued -= 1
        if not state.queued:
            del self._waiting[consumer]
        if state.is_gone:
            del self._consumers[consumer]

    def _begin_turn(self) -> None:
        """Have the count of starts begin anew with the next turn of the event loop, and waiting calls start then."""
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self._starts = 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Start waiting calls, as many as quotas and this turn allow."""
        while self._starts < STARTS_PER_TURN:
            found = self._next()
            if found is None:
                return
            consumer, endpoint = found
            state = self._consumers[consumer]
            waiter = state.waiting[endpoint][0]
            # Consumers with as many calls take turns, and so do the endpoints of one consumer.
            state.waiting.move_to_end(endpoint)
            self._dequeue(consumer, state, waiter)
            if waiter.granted.cancelled():
                continue
            self._consumers[consumer] = state
            if consumer in self._waiting:
                self._waiting.move_to_end(consumer)
            self._start(state, endpoint)
            waiter.granted.set_result(None)
            self._begin_turn()

    def _next(self) -> tuple[str, Hashable] | None:
        """Return the consumer and the endpoint of the call to start, None if none may."""
        best: tuple[str, Hashable] | None = None
        fewest = self.quotas.calls
        for consumer in self._waiting:
            state = self._consumers[consumer]
            if state.calls >= fewest or (state.calls and self.under_way >= self.quotas.total):
                continue
            endpoint = next((one for one in state.waiting if not self._barrier(state, one)), None)
            if endpoint is not None:
                best, fewest = (consumer, endpoint), state.calls
                if not fewest:
                    break
        return best
