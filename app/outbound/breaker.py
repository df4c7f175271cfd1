"""Not asking for a while where nobody answers, so that one dead hook does not hold up everybody by its timeout."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

FAILURES: Final = 5
REST_SECONDS: Final = 10.0
# A closed breaker is as good as none, and one takes some 400 bytes: that many are 4 MB.
REMEMBERED: Final = 10_000


class Breaker:
    """Opens after some failures in a row; after a rest one call is let through, and decides."""

    def __init__(
        self, *, failures: int = FAILURES, rest: float = REST_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare a closed breaker; ``rest`` in seconds."""
        self._limit: Final = failures
        self._rest: Final = rest
        self._clock: Final = clock
        self._failures = 0
        self._opened_at = 0.0
        self._trying = False

    @property
    def open(self) -> bool:
        """Whether calls are refused."""
        return self._failures >= self._limit

    def allow(self) -> bool:
        """Return whether a call may be made; every one that is has to be followed by `record` or `forget`."""
        if not self.open:
            return True
        if self._trying or self._clock() - self._opened_at < self._rest:
            return False
        self._trying = True
        return True

    def record(self, *, ok: bool) -> None:
        """Note how a call ended."""
        self._trying = False
        self._failures = 0 if ok else self._failures + 1
        if not ok:
            self._opened_at = self._clock()

    def forget(self) -> None:
        """Note that a call ended without telling anything: it was cancelled, or not made at all."""
        self._trying = False


class Breakers:
    """A breaker for each key, and not more than a number of them: what was used longest ago is forgotten."""

    def __init__(self, *, limit: int = REMEMBERED, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare."""
        self._limit: Final = limit
        self._clock: Final = clock
        self._breakers: Final[OrderedDict[bytes, Breaker]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._breakers)

    def of(self, key: bytes) -> Breaker:
        """Return the breaker of a key, a closed one if there is none."""
        breaker = self._breakers.get(key)
        if breaker is None:
            if len(self._breakers) >= self._limit:
                self._breakers.popitem(last=False)
            breaker = self._breakers[key] = Breaker(clock=self._clock)
        self._breakers.move_to_end(key)
        return breaker
