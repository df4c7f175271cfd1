"""Limit the calls in flight, and share the limit fairly between the logical clusters of their requests."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from typing import Final, NamedTuple

STARTS_PER_TURN: Final = 4
"""Calls that start in one iteration of the event loop. A TLS handshake blocks the loop for 1 to 2 ms."""
_WAITING_PER_CALL: Final = 8
_RESERVE_FACTOR: Final = 2


class Quotas(NamedTuple):
    """Maximum numbers of calls in flight. Each call uses one connection, so these also limit connections."""

    connections: int = 32
    """Calls of one consumer to one endpoint."""
    calls: int = 128
    """Calls of one consumer to all endpoints."""
    total: int = 512
    """Calls of all consumers. A consumer without a call in flight gets one beyond it, up to twice the total."""


class FullError(Exception):
    """No slot became free in time.

    Attributes:
        limit: The exhausted quota: ``connections``, ``calls`` or ``total``.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit: Final = limit


class _Waiter(NamedTuple):
    endpoint: Hashable
    granted: "asyncio.Future[None]"


class _Consumer:
    """The calls of one consumer: those in flight by endpoint, and those that wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.by_endpoint: Final[dict[Hashable, int]] = {}
        self.waiting: Final[OrderedDict[Hashable, deque[_Waiter]]] = OrderedDict()
        self.queued = 0

    @property
    def is_unused(self) -> bool:
        return not self.calls and not self.queued


class CallSlots:
    """Admits calls within quotas. The consumer with the fewest calls in flight is next, in order of arrival.

    Only consumers with calls have state, so requests in flight limit its size.
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
        """Return the number of calls in flight for each consumer that has any."""
        return {name: state.calls for name, state in self._consumers.items() if state.calls}

    @contextlib.asynccontextmanager
    async def hold(self, consumer: str, endpoint: Hashable, *, seconds: float) -> AsyncIterator[bool]:
        """Hold a slot for one call; yields whether the call had to wait.

        Args:
            consumer: The logical cluster of the request.
            endpoint: The called endpoint.
            seconds: The longest time to wait for the slot.

        Raises:
            FullError: No slot became free in that time, or too many calls of the consumer wait already.
        """
        waited = await self._acquire(consumer, endpoint, seconds)
        try:
            yield waited
        finally:
            self._release(consumer, endpoint)

    async def take_turn(self) -> None:
        """Wait for an iteration of the event loop in which a call that holds a slot may connect again."""
        self._begin_turn()
        while self._starts >= STARTS_PER_TURN:
            await asyncio.sleep(0)
            self._begin_turn()
        self._starts += 1

    async def _acquire(self, consumer: str, endpoint: Hashable, seconds: float) -> bool:
        state = self._consumers.setdefault(consumer, _Consumer())
        self._begin_turn()
        if (
            self._starts < STARTS_PER_TURN
            and endpoint not in state.waiting
            and not self._find_exhausted(state, endpoint)
        ):
            self._start(state, endpoint)
            return False
        if state.queued >= self.quotas.calls * _WAITING_PER_CALL:
            raise self._refuse(state, endpoint)
        waiter = _Waiter(endpoint, asyncio.get_running_loop().create_future())
        self._enqueue(consumer, state, waiter)
        try:
            async with asyncio.timeout(seconds):
                await self._await_grant(consumer, waiter)
        except TimeoutError:
            raise self._refuse(state, endpoint) from None
        finally:
            if waiter.granted.cancelled():
                self._dequeue(consumer, state, waiter)
        return True

    async def _await_grant(self, consumer: str, waiter: _Waiter) -> None:
        """Wait for a slot, and release it if the caller was cancelled at the moment of the grant."""
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if not waiter.granted.cancelled():
                self._release(consumer, waiter.endpoint)
            raise

    def _find_exhausted(self, state: _Consumer, endpoint: Hashable) -> str:
        """Return the exhausted quota that prevents a call, ``""`` if there is none."""
        if state.by_endpoint.get(endpoint, 0) >= self.quotas.connections:
            return "connections"
        if state.calls >= self.quotas.calls:
            return "calls"
        total = self.quotas.total if state.calls else self.quotas.total * _RESERVE_FACTOR
        return "total" if self.under_way >= total else ""

    def _refuse(self, state: _Consumer, endpoint: Hashable) -> FullError:
        limit = self._find_exhausted(state, endpoint) or "calls"
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
        if state.is_unused:
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
        if state.is_unused:
            del self._consumers[consumer]

    def _begin_turn(self) -> None:
        """Reset the count of starts in the next iteration of the event loop, and start waiting calls there."""
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self._starts = 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Start as many waiting calls as the quotas and this iteration of the event loop allow."""
        while self._starts < STARTS_PER_TURN:
            found = self._find_next()
            if found is None:
                return
            consumer, endpoint = found
            state = self._consumers[consumer]
            waiter = state.waiting[endpoint][0]
            # Consumers with equal numbers of calls take turns, and so do the endpoints of one consumer.
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

    def _find_next(self) -> tuple[str, Hashable] | None:
        """Return the consumer and endpoint of the next call, None if the quotas allow none."""
        best: tuple[str, Hashable] | None = None
        fewest = self.quotas.calls
        for consumer in self._waiting:
            state = self._consumers[consumer]
            if state.calls >= fewest or (state.calls and self.under_way >= self.quotas.total):
                continue
            endpoint = next((one for one in state.waiting if not self._find_exhausted(state, one)), None)
            if endpoint is not None:
                best, fewest = (consumer, endpoint), state.calls
                if not fewest:
                    break
        return best
