"""The limit of requests in flight of one logical cluster."""

import contextlib
from collections.abc import Iterator
from typing import Final


class FullQuotaError(Exception):
    """A consumer has used up its quota of requests in flight."""


class RequestQuota:
    """Counts requests in flight by consumer.

    Attributes:
        limit: The maximum number of requests in flight of one consumer.
        in_flight: The number of requests by consumer; consumers without requests take no memory.
    """

    def __init__(self, limit: int) -> None:
        """Prepare."""
        self.limit: Final = limit
        self.in_flight: Final[dict[str, int]] = {}

    @contextlib.contextmanager
    def hold(self, consumer: str) -> Iterator[None]:
        """Count one request while it is being answered.

        Args:
            consumer: The logical cluster of the request.

        Raises:
            FullQuotaError: The consumer has reached the limit.
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
