"""A clock with timers that the test moves."""

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Planned:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback, self.args, self.cancelled = callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A scheduler whose time the test sets."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._planned: list[tuple[float, int, Planned]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> Planned:
        planned = Planned(callback, args)
        heapq.heappush(self._planned, (when, next(self._numbers), planned))
        return planned

    def next(self) -> float:
        """The time of the next planned call, infinity without one."""
        while self._planned and self._planned[0][2].cancelled:
            heapq.heappop(self._planned)
        return self._planned[0][0] if self._planned else float("inf")

    def advance(self, seconds: float) -> None:
        """Move the time, and make each due call at its time."""
        end = self.now + seconds
        while self._planned and self._planned[0][0] <= end:
            when, _, planned = heapq.heappop(self._planned)
            self.now = max(self.now, when)
            if not planned.cancelled:
                planned.callback(*planned.args)
        self.now = end
