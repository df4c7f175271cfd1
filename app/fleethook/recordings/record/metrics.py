"""The metrics of recording. The event loop only counts overflows; the recorder's thread publishes all numbers."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.registry import Collector

from fleethook.server.metrics.worker_metrics import Counts

REASONS: Final = ("overflow", "redaction", "write", "error")


class RecordMetrics:
    """Counts records. Only the recorder's thread calls the methods.

    Attributes:
        overflowed: The number of reviews that found the queue full; only the event loop changes it.
    """

    def __init__(self) -> None:
        """Register all series at once, so that a scrape never sees them change."""
        self._recorded: Final = Counts("fleethook_recorded_reviews", "Reviews that were written to the recording.", [])
        self._dropped: Final = Counts(
            "fleethook_record_dropped_reviews",
            "Reviews that were not recorded, by reason: the queue was full (overflow), they had too many values to "
            "redact (redaction), a file could not be written (write), or a defect (error).",
            ["reason"],
        )
        self._bytes: Final = Counts("fleethook_record_bytes", "Compressed bytes written to the recording.", [])
        self._errors: Final = Counts("fleethook_record_errors", "Failed writes to the recording, and defects.", [])
        self._published_overflows = 0
        self.overflowed = 0
        for counts in (self._recorded, self._bytes, self._errors):
            counts.add((), 0.0)
        for reason in REASONS:
            self._dropped.add((reason,), 0.0)

    def collectors(self) -> Iterator[Collector]:
        """Yield the collectors for a registry."""
        yield from (self._recorded, self._dropped, self._bytes, self._errors)

    def add_recorded(self, count: int) -> None:
        """Count reviews that were written."""
        self._recorded.add((), count)

    def add_dropped(self, reason: str, count: int) -> None:
        """Count reviews that were not written."""
        if count:
            self._dropped.add((reason,), count)

    def add_bytes(self, count: int) -> None:
        """Count bytes that were written."""
        self._bytes.add((), count)

    def add_error(self) -> None:
        """Count a failed write or a defect."""
        self._errors.add((), 1.0)

    def publish(self) -> None:
        """Publish the number of overflows."""
        new = self.overflowed - self._published_overflows
        self._published_overflows += new
        self.add_dropped("overflow", new)
