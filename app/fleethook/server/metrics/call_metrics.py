"""Prometheus metrics of the calls to webhooks."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.outbound.client import HookClient


class CallSlots(Collector):
    """The numbers of webhook calls: in flight, waiting, refused by a quota, and repeated."""

    def __init__(self, client: HookClient) -> None:
        self._client: Final = client

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        slots = self._client.slots
        under_way = GaugeMetricFamily("fleethook_webhook_calls_in_flight", "Webhook calls in flight.")
        under_way.add_metric([], slots.under_way)
        yield under_way
        waiting = GaugeMetricFamily(
            "fleethook_webhook_calls_waiting", "Webhook calls that wait for other calls to end."
        )
        waiting.add_metric([], slots.queued)
        yield waiting
        refused = CounterMetricFamily(
            "fleethook_webhook_calls_refused",
            "Webhook calls refused because a quota was full, by quota.",
            labels=["quota"],
        )
        for quota, count in slots.refused.items():
            refused.add_metric([quota], count)
        yield refused
        retries = CounterMetricFamily(
            "fleethook_webhook_call_retries",
            "Webhook calls repeated because of a Retry-After header, by status: 429 or 5xx.",
            labels=["code"],
        )
        for code, count in self._client.retries.items():
            retries.add_metric([code], count)
        yield retries
