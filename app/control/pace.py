"""Not more than so many calls a second, whoever makes them."""

import asyncio
from typing import Final

_ROUNDING_SECONDS: Final = 1e-6


class Pace:
    """A token bucket."""

    def __init__(self, per_second: float, *, burst: int) -> None:
        """Allow ``per_second`` in the long run and ``burst`` at once."""
        self._interval: Final = 1.0 / per_second
        self._slack: Final = burst * self._interval
        self._due = 0.0

    async def step(self) -> None:
        """Wait for one's turn; turns are given in the order of asking."""
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now - self._slack) + self._interval
        if (early := self._due - now) > _ROUNDING_SECONDS:
            await asyncio.sleep(early)
