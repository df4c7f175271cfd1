"""The metrics of limits: connections and memory of request bodies at the HTTP edge, and calls of webhooks."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.outbound.client import HookClient
from fleethook.server.protocol.body_memory import BodyBudget
from fleethook.server.protocol.connections import Connections


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
            yield _gauge("fleethook_connections", "Open connections.", len(connections))
            yield _gauge(
                "fleethook_connections_limit",
                "Maximum number of open connections (max_connections).",
                connections.limit,
            )
            yield _counter(
                "fleethook_connections_closed",
                "Connections that were closed to make room for others.",
                connections.closed,
            )
            yield _counter(
                "fleethook_connections_health_only",
                "Connections beyond the limit, on which only health checks are answered.",
                connections.crowded,
            )
        yield _gauge(
            "fleethook_body_bytes", "Bytes charged for bodies and the objects decoded from them.", bodies.total
        )
        yield _gauge(
            "fleethook_body_bytes_limit", "Maximum number of bytes that may be charged (body_memory).", bodies.limit
        )
        yield _counter(
            "fleethook_bodies_refused", "Requests and answers that found no body memory in time.", bodies.refused
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
