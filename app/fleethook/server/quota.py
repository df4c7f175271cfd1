"""The share of one logical cluster in the requests of a server, and in the memory of their bodies.

All reviews of a kcp come from the addresses of its apiservers, so shares by address do not separate its tenants. A
consumer may have as many requests as there is room for others ("dynamic thresholds", see
`fleethook.server.protocol.body_memory`): one consumer gets half, two get a third each, and the next consumer always
finds room.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from fleethook.server.protocol.body_memory import BodyCharge


class FullQuotaError(Exception):
    """A consumer has used up its share; the text names the limit and its setting."""


class RequestQuota:
    """Counts requests in flight by consumer.

    Attributes:
        limit: The maximum number of requests in flight of one consumer.
        total: The maximum number of requests in flight of all consumers together.
        in_flight: The number of requests by consumer; consumers without requests take no memory.
    """

    def __init__(self, limit: int, *, total: int) -> None:
        """Prepare."""
        self.limit: Final = limit
        self.total: Final = total
        self.in_flight: Final[dict[str, int]] = {}
        self._sum = 0

    @contextlib.contextmanager
    def hold(self, consumer: str, charge: BodyCharge | None = None, *, size: int = 0) -> Iterator[None]:
        """Count one request while it is being answered.

        Args:
            consumer: The logical cluster of the request.
            charge: The memory of the request, which counts to the consumer from now on; None to charge nothing.
            size: Bytes of the body.

        Raises:
            FullQuotaError: The consumer has reached the limit, or its share of the requests or the memory.
        """
        count = self.in_flight.get(consumer, 0)
        if count >= self.limit:
            raise FullQuotaError(
                f"{self.limit} requests of logical cluster {consumer} are being answered, which is the limit (setting "
                "dispatch_workspace_requests)"
            )
        if count + 1 > self.total - self._sum:
            raise FullQuotaError(
                f"{count} requests of logical cluster {consumer} are being answered, which is its share of "
                "max_connections"
            )
        if charge is not None and not charge.assign(f"logical cluster {consumer}", size):
            raise FullQuotaError(f"the requests of logical cluster {consumer} hold its share of body_memory")
        self.in_flight[consumer] = count + 1
        self._sum += 1
        try:
            yield
        finally:
            self._sum -= 1
            left = self.in_flight[consumer] - 1
            if left:
                self.in_flight[consumer] = left
            else:
                del self.in_flight[consumer]
