"""Shares of an amount, such as memory: a consumer with much of it leaves room for the others."""

from collections import Counter
from typing import Final


class Shares:
    """An amount that consumers hold.

    A consumer gets more as long as it holds no more than the free part, or a multiple of it ("dynamic thresholds",
    Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). So a single consumer gets half, two get a
    third each, and the next one always finds room.
    """

    def __init__(self, limit: int, *, multiple: int = 1) -> None:
        """Prepare.

        Args:
            limit: The amount of all consumers together.
            multiple: A consumer may hold so many times the free part. A single one gets ``multiple / (multiple + 1)``.
        """
        self.limit: Final = limit
        self._multiple: Final = multiple
        self._held: Final[Counter[str]] = Counter()
        self.total = 0
        """The amount that all hold."""

    def allows(self, consumer: str, size: int) -> bool:
        """Return whether a consumer may take more."""
        free = self.limit - self.total
        return size <= free and self._held.get(consumer, 0) + size <= self._multiple * free

    def take(self, consumer: str, size: int) -> bool:
        """Take an amount and return True, or return False if there is no room for it."""
        if not self.allows(consumer, size):
            return False
        self._held[consumer] += size
        self.total += size
        return True

    def move(self, size: int, *, source: str, target: str) -> bool:
        """Give an amount of one consumer to another one and return True, or return False if that has no room for it."""
        free = self.limit - self.total + size
        if self._held.get(target, 0) + size > self._multiple * free:
            return False
        self._held[target] += size
        self._held[source] -= size
        if not self._held[source]:
            del self._held[source]
        return True

    def clear(self) -> None:
        """Release everything."""
        self._held.clear()
        self.total = 0

    def give_back(self, consumer: str, size: int) -> None:
        """Release an amount."""
        self.total -= size
        self._held[consumer] -= size
        if not self._held[consumer]:
            del self._held[consumer]
