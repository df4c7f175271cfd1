"""Limit the calls in flight: slots that clusters share fairly."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Final, NamedTuple

from fleethook.fairness.slots import Limits, Slots

STARTS_PER_TURN: Final = 4
"""Calls that start in one iteration of the event loop. A TLS handshake blocks the loop for 1 to 2 ms."""
_WAITING_PER_CALL: Final = 8
_RESERVE_FACTOR: Final = 2
_QUOTA_OF_LIMIT: Final = {"part": "connections", "each": "calls", "total": "total", "": "calls"}


class Quotas(NamedTuple):
    """Maximum numbers of calls in flight. Each call uses one connection, so these also limit connections."""

    connections: int = 32
    """Calls of one consumer to one endpoint."""
    calls: int = 128
    """Calls of one consumer to all endpoints."""
    total: int = 512
    """Calls of all consumers. Beyond it, each consumer without a call in flight gets one, up to twice this number."""


class FullError(Exception):
    """No slot became free in time.

    Attributes:
        limit: The exhausted quota: ``connections``, ``calls`` or ``total``.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit: Final = limit


class CallSlots:
    """Admits calls within quotas (`fleethook.fairness.slots`).

    The lanes are consumers, and their parts are endpoints.
    """

    def __init__(self, quotas: Quotas) -> None:
        """Prepare."""
        self.quotas: Final = quotas
        count = quotas.total * _RESERVE_FACTOR
        limits = Limits(count, reserved=count - quotas.total, each=quotas.calls, part=quotas.connections)
        self._slots: Final = Slots(limits)
        self._starts = 0
        self.refused: Final = dict.fromkeys(Quotas._fields, 0)

    @property
    def under_way(self) -> int:
        """The number of calls in flight."""
        return self._slots.held

    @property
    def queued(self) -> int:
        """The number of calls that wait."""
        return self._slots.queued

    def by_consumer(self) -> dict[str, int]:
        """Return the number of calls in flight for each consumer that has any."""
        return {str(consumer): count for consumer, count in self._slots.held_by_lane().items()}

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
        slots = self._slots
        if slots.queued and slots.waiting(consumer) >= self.quotas.calls * _WAITING_PER_CALL:
            raise self._refuse(consumer, endpoint)
        turn = slots.join(consumer, endpoint)
        if turn is not None:
            try:
                async with asyncio.timeout(seconds):
                    await slots.wait(turn, consumer, endpoint)
            except TimeoutError:
                raise self._refuse(consumer, endpoint) from None
        try:
            await self.take_turn()
            yield turn is not None
        finally:
            slots.release(consumer, endpoint)

    async def take_turn(self) -> None:
        """Wait for an iteration of the event loop in which a call that holds a slot may connect."""
        while self._starts >= STARTS_PER_TURN:  # noqa: ASYNC110 - it counts iterations
            await asyncio.sleep(0)
        self._starts += 1
        if self._starts == 1:
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._starts = 0

    def _refuse(self, consumer: str, endpoint: Hashable) -> FullError:
        limit = _QUOTA_OF_LIMIT[self._slots.find_exhausted(consumer, endpoint)]
        self.refused[limit] += 1
        return FullError(limit)
