"""Circuit breakers: they limit how many requests of a consumer wait for a webhook that does not respond.

They use no clock. An open breaker allows one probe at a time, and the first response closes it.
"""

from typing import Final

from fleethook.fairness.cache import FairCache

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
        """Record a response. If the call is retried after it, other callers need not wait for the end."""
        self._breakers.end(self._consumer, self._key, answered=True, probe=self._probe)
        self._probe, self._answered = False, True

    def record_no_connection(self) -> None:
        """Record that no connection was established, at the first attempt or at a retry."""
        self._silent = True

    def record_timeout(self) -> None:
        """Record that the webhook's timeout has passed. A retry had less time and is no evidence."""
        self._silent = not self._answered

    def close(self) -> None:
        """Record the end of the call."""
        answered = False if self._silent else None
        self._breakers.end(self._consumer, self._key, answered=answered, probe=self._probe)
