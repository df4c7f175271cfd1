"""Shares of a limited number of places: a crowd in one lane leaves places for every other lane."""

from collections import Counter
from collections.abc import Hashable
from typing import Final


class Shares:
    """Counts who holds how many places.

    A lane that holds none gets any free place. A lane that holds some gets another one only beyond the reserved places.
    So one lane holds at most ``count - reserved`` places, and ``reserved`` further lanes hold one each.
    """

    def __init__(self, count: int, *, reserved: int = 0) -> None:
        """Share ``count`` places, of which ``reserved`` are for lanes that hold none."""
        self._free = count
        self._reserved: Final = reserved
        self._held: Final[Counter[Hashable]] = Counter()

    @property
    def exhausted(self) -> bool:
        """Whether no place is free."""
        return self._free <= 0

    def held(self, lane: Hashable) -> int:
        """Return how many places a lane holds."""
        return self._held[lane]

    def allows(self, lane: Hashable) -> bool:
        """Tell whether a lane may take a place now."""
        return self._free > (self._reserved if self._held[lane] else 0)

    def take(self, lane: Hashable) -> None:
        """Take a place."""
        self._free -= 1
        self._held[lane] += 1

    def give_back(self, lane: Hashable) -> None:
        """Give a place back."""
        self._free += 1
        self._held[lane] -= 1
        if not self._held[lane]:
            del self._held[lane]
