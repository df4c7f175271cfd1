"""The metrics of limits: connections and memory of request bodies at the HTTP edge, and calls of webhooks."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.outbound.client import HookClient
from fleethook.server.protocol.connections import Connections
from fleethook.server.protocol.request_body import BodyBudget


class CallSlots(Collector):
    """The numbers of webhook calls: in flight, waiting, refused by a quota, and repeated."""

    def __init__(self, client: HookClient) -> None:
        self._client: Final = client

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        slots = self._client.slots
        yield GaugeMetricFamily("fleethook_webhook_calls_in_flight", "Webhook calls in flight.", slots.under_way)
        yield GaugeMetricFamily(
            "fleethook_webhook_calls_waiting", "Webhook calls that wait for other calls to end.", slots.queued
        )
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


class EdgeMetrics(Collector):
    """Connections and body memory of one worker process, their limits, and counters of refusals."""

    def __init__(self, connections: Callable[[], Connections | None], bodies: BodyBudget) -> None:
        """Read both when the metrics are scraped; ``connections`` returns None before the server listens."""
        self._connections: Final = connections
        self._bodies: Final = bodies

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        connections, bodies = self._connections(), self._bodies
        if connections is not None:
            yield GaugeMetricFamily("fleethook_connections", "Open connections.", len(connections))
            yield GaugeMetricFamily(
                "fleethook_connections_limit",
                "Maximum number of open connections (max_connections).",
                connections.limit,
            )
            yield CounterMetricFamily(
                "fleethook_connections_closed",
                "Connections that were closed to make room for others.",
                connections.closed,
            )
            yield CounterMetricFamily(
                "fleethook_connections_health_only",
                "Connections beyond the limit, on which only health checks are answered.",
                connections.crowded,
            )
        yield GaugeMetricFamily(
            "fleethook_body_bytes", "Bytes charged for bodies and the objects decoded from them.", bodies.total
        )
        yield GaugeMetricFamily(
            "fleethook_body_bytes_limit", "Maximum number of bytes that may be charged (body_memory).", bodies.limit
        )
        yield CounterMetricFamily(
            "fleethook_bodies_refused", "Requests and answers that found no body memory in time.", bodies.refused
        )
