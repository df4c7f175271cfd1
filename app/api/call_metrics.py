"""Prometheus metrics of the calls to webhooks."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.outbound.slots import Slots


class CallSlots(Collector):
    """The metrics of calls to webhooks: those under way, those that wait, and those refused for a quota."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        slots = self._slots
        for name, text, value in (
            ("in_flight", "Calls of webhooks under way.", slots.under_way),
            ("waiting", "Calls of webhooks that wait for others to end.", slots.queued),
        ):
            gauge = GaugeMetricFamily(f"fleethook_webhook_calls_{name}", text)
            gauge.add_metric([], value)
            yield gauge
        refused = CounterMetricFamily(
            "fleethook_webhook_calls_refused",
            "Calls of webhooks for which a quota had no room, by quota.",
            labels=["quota"],
        )
        for quota, count in slots.refused.items():
            refused.add_metric([quota], count)
        yield refused
