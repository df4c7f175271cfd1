"""A review that arrives in several reads: it counts as in flight, and its bytes are charged, before it is complete."""

from typing import Final

from fleethook.server.metrics.metrics import Metrics
from fleethook.server.protocol.body_memory import BodyCharge


class PartialBody:
    """The part of a body that has arrived."""

    def __init__(self, metrics: Metrics, charge: BodyCharge | None) -> None:
        """Count a request as in flight, until `end`.

        Args:
            metrics: Counts the requests in flight.
            charge: The memory of the request; None to collect it without charging it.
        """
        self._metrics: Final = metrics
        self._charge: Final = charge
        self._size = 0
        metrics.in_flight += 1

    def grow(self, size: int) -> bool:
        """Charge the body, of which ``size`` bytes have arrived; return whether there is room for them."""
        further, self._size = size - self._size, size
        return self._charge is None or self._charge.take(further)

    def end(self) -> None:
        """Release the bytes and stop counting the request; call this once."""
        self._metrics.in_flight -= 1
        if self._charge is not None:
            self._charge.give_back()
