"""Prometheus metrics of a process that competes for a Lease, defined once for the server and the CRD controller."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class LeaderState(NamedTuple):
    """The state of a candidate for the Lease."""

    leading: bool
    queued: int = 0
    """Objects in the work queue of its controller, 0 without a controller."""


class ControllerCounts(NamedTuple):
    """Counts of the overrider controller; of a replica that does not lead, those of the last time that it led."""

    reconciled: int = 0
    touched: int = 0
    failed: int = 0


class LeaderMetrics(Collector):
    """The gauges of a candidate for the Lease."""

    def __init__(self, read: Callable[[], LeaderState]) -> None:
        """Prepare; ``read`` returns the current state."""
        self._read: Final = read

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges with their current values."""
        state = self._read()
        leading = GaugeMetricFamily("fleethook_leader", "1 in the process that holds the Lease and runs controllers.")
        leading.add_metric([], float(state.leading))
        yield leading
        queued = GaugeMetricFamily("fleethook_controller_queue_length", "Objects that wait for the controller.")
        queued.add_metric([], state.queued)
        yield queued


class ControllerMetrics(Collector):
    """The counters of the overrider controller."""

    def __init__(self, read: Callable[[], ControllerCounts]) -> None:
        """Prepare; ``read`` returns the current counts."""
        self._read: Final = read

    def collect(self) -> Iterator[Metric]:
        """Yield the counters with their current values."""
        counts = self._read()
        for counter, value in (
            (
                CounterMetricFamily("fleethook_controller_reconciled", "Reconciliations of a subject."),
                counts.reconciled,
            ),
            (
                CounterMetricFamily("fleethook_controller_touched", "Workloads written so that they are rendered."),
                counts.touched,
            ),
            (
                CounterMetricFamily("fleethook_controller_failed", "Workloads that did not match after their write."),
                counts.failed,
            ),
        ):
            counter.add_metric([], value)
            yield counter
