"""Breakers: they bound how many requests of a consumer wait at a time for a webhook that does not answer.

No clock decides. An open breaker lets one call at a time through, and the first answer closes it.
"""

from typing import Final

from app.outbound.fair_cache import FairCache

FAILURES: Final = 5
# One takes some 300 bytes: that many are 3 MB. Only endpoints whose last call failed have one.
REMEMBERED: Final = 10_000


class Breaker:
    """Failures in a row of one endpoint for one consumer.

    Attributes:
        failures: Calls in a row without an answer.
        is_probed: Whether the one call is under way that an open breaker lets through.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether it lets one call at a time through."""
        return self.failures >= FAILURES


class Breakers:
    """Breakers by consumer and endpoint, a bounded number of them; one that is evicted is closed."""

    def __init__(self, *, limit: int = REMEMBERED) -> None:
        """Prepare."""
        self._kept: Final[FairCache[str, bytes, Breaker]] = FairCache(limit, is_idle=lambda one: not one.is_probed)

    def __len__(self) -> int:
        return len(self._kept)

    def is_open(self, consumer: str, key: bytes) -> bool:
        """Return whether the last calls had no answer."""
        breaker = self._kept.get(consumer, key)
        return breaker is not None and breaker.is_open

    def refuses(self, consumer: str, key: bytes) -> bool:
        """Return whether a call has to be refused: the breaker is open, and another call is under way to try it."""
        breaker = self._kept.get(consumer, key)
        return breaker is not None and breaker.is_open and breaker.is_probed

    def begin(self, consumer: str, key: bytes) -> bool:
        """Note that a call begins, and return whether it is the one that tries an open breaker: pass that to `end`."""
        breaker = self._kept.get(consumer, key)
        if breaker is None or not breaker.is_open or breaker.is_probed:
            return False
        breaker.is_probed = True
        return True

    def end(self, consumer: str, key: bytes, *, answered: bool | None, probe: bool) -> None:
        """Note how a call ended.

        Args:
            consumer: The logical cluster of the request.
            key: Of the endpoint.
            answered: Whether there was an answer; None if the call is no evidence.
            probe: As `begin` returned.
        """
        if answered:
            # A closed breaker without failures is as good as none.
            self._kept.pop(consumer, key)
            return
        breaker = self._kept.get(consumer, key)
        if breaker is not None and probe:
            breaker.is_probed = False
        if answered is None:
            return
        if breaker is None:
            breaker = Breaker()
            self._kept.put(consumer, key, breaker)
        breaker.failures += 1
        self._kept.evict()


class Evidence:
    """The evidence of one call about a webhook; its breaker is told at once of an answer, and of silence at the end."""

    def __init__(self, breakers: Breakers, consumer: str, key: bytes) -> None:
        """Note that the call begins."""
        self._breakers: Final = breakers
        self._consumer: Final = consumer
        self._key: Final = key
        self._probe = breakers.begin(consumer, key)
        self._silent: bool | None = None
        self._answered = False

    def answered(self) -> None:
        """Note an answer, also one after which the call is repeated: others need not wait until it ends."""
        self._breakers.end(self._consumer, self._key, answered=True, probe=self._probe)
        self._probe, self._answered = False, True

    def unconnected(self) -> None:
        """Note that there was no connection, the first time or at a repetition."""
        self._silent = True

    def timed_out(self) -> None:
        """Note that the webhook's own time passed; a repetition did not have all of it, and is no evidence."""
        self._silent = not self._answered

    def close(self) -> None:
        """Note that the call ends."""
        answered = False if self._silent else None
        self._breakers.end(self._consumer, self._key, answered=answered, probe=self._probe)
