"""Limit the calls in flight: slots that clusters share fairly, and a circuit breaker for each webhook."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Final, NamedTuple

from fleethook.fairness.cache import FairCache
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
        self._slots: Final = Slots(limits, starts=STARTS_PER_TURN)
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
            yield turn is not None
        finally:
            slots.release(consumer, endpoint)

    async def take_turn(self) -> None:
        """Wait for an iteration of the event loop in which a call that holds a slot may connect again."""
        await self._slots.take_start()

    def _refuse(self, consumer: str, endpoint: Hashable) -> FullError:
        limit = _QUOTA_OF_LIMIT[self._slots.find_exhausted(consumer, endpoint)]
        self.refused[limit] += 1
        return FullError(limit)


MAX_FAILURES: Final = 5
# A breaker takes about 300 bytes, so this many take 3 MB. Only endpoints whose last call failed have one.
MAX_BREAKERS: Final = 10_000


class Breaker:
    """Consecutive failures of one endpoint for one consumer.

    Attributes:
        failures: Consecutive calls without a response.
        is_probed: Whether the probe of the open breaker is in flight.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether the breaker allows only one probe at a time."""
        return self.failures >= MAX_FAILURES


class Breakers:
    """A bounded number of breakers, by consumer and endpoint; evicting a breaker closes it."""

    def __init__(self, *, limit: int = MAX_BREAKERS) -> None:
        """Prepare."""
        self._breakers: Final[FairCache[str, bytes, Breaker]] = FairCache(limit, is_idle=lambda one: not one.is_probed)

    def __len__(self) -> int:
        return len(self._breakers)

    def is_open(self, consumer: str, key: bytes) -> bool:
        """Return whether the breaker is open, because the last calls had no response."""
        breaker = self._breakers.get(consumer, key)
        return breaker is not None and breaker.is_open

    def refuses(self, consumer: str, key: bytes) -> bool:
        """Return whether a call must be refused: the breaker is open, and its probe is in flight."""
        breaker = self._breakers.get(consumer, key)
        return breaker is not None and breaker.is_open and breaker.is_probed

    def begin(self, consumer: str, key: bytes) -> bool:
        """Record the start of a call. Return whether it is the probe of an open breaker; pass the result to `end`."""
        breaker = self._breakers.get(consumer, key)
        if breaker is None or not breaker.is_open or breaker.is_probed:
            return False
        breaker.is_probed = True
        return True

    def end(self, consumer: str, key: bytes, *, answered: bool | None, probe: bool) -> None:
        """Record the end of a call.

        Args:
            consumer: The logical cluster of the request.
            key: The key of the endpoint.
            answered: Whether the webhook responded; None if the call is no evidence about it.
            probe: The result of `begin`.
        """
        if answered:
            # A closed breaker without failures need not be stored.
            self._breakers.pop(consumer, key)
            return
        breaker = self._breakers.get(consumer, key)
        if breaker is not None and probe:
            breaker.is_probed = False
        if answered is None:
            return
        if breaker is None:
            breaker = Breaker()
            self._breakers.put(consumer, key, breaker)
        breaker.failures += 1
        self._breakers.evict()


class Evidence:
    """Reports one call to the breaker of its webhook: a response at once, a missing response at the end."""

    def __init__(self, breakers: Breakers, consumer: str, key: bytes) -> None:
        """Record the start of the call."""
        self._breakers: Final = breakers
        self._consumer: Final = consumer
        self._key: Final = key
        self._probe = breakers.begin(consumer, key)
        self._silent: bool | None = None
        self._answered = False

    def record_response(self) -> None:
        """Record a response and close the breaker, also if retries of the call follow."""
        self._breakers.end(self._consumer, self._key, answered=True, probe=self._probe)
        self._probe, self._answered = False, True

    def record_no_connection(self) -> None:
        """Record that no connection was established, at the first attempt or at a retry."""
        self._silent = True

    def record_timeout(self) -> None:
        """Record that the webhook's timeout has passed. After a response it is no evidence: a retry has less time."""
        self._silent = not self._answered

    def close(self) -> None:
        """Record the end of the call."""
        answered = False if self._silent else None
        self._breakers.end(self._consumer, self._key, answered=answered, probe=self._probe)
