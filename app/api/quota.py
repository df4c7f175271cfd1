"""How many requests of one logical cluster are answered at a time."""

import contextlib
from collections.abc import Iterator
from typing import Final


class FullQuotaError(Exception):
    """As many requests of a consumer are being answered as its quota allows."""


class RequestQuota:
    """Counts requests in flight by consumer.

    Attributes:
        limit: Requests of one consumer at a time.
        in_flight: The consumers with requests, and how many each has; so it is bounded by the requests themselves.
    """

    def __init__(self, limit: int) -> None:
        """Prepare."""
        self.limit: Final = limit
        self.in_flight: Final[dict[str, int]] = {}

    @contextlib.contextmanager
    def hold(self, consumer: str) -> Iterator[None]:
        """Count one request while it is answered.

        Args:
            consumer: The logical cluster of the request.

        Raises:
            FullQuotaError: The consumer has too many already.
        """
        count = self.in_flight.get(consumer, 0)
        if count >= self.limit:
            raise FullQuotaError
        self.in_flight[consumer] = count + 1
        try:
            yield
        finally:
            left = self.in_flight[consumer] - 1
            if left:
                self.in_flight[consumer] = left
            else:
                del self.in_flight[consumer]
