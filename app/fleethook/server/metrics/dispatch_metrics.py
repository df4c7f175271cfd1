"""Prometheus metrics of dispatching, by logical cluster, and of webhook calls. The number of series is bounded."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.outbound.client import HookClient
from fleethook.server.metrics.worker_metrics import Counts, Gauges, Observations

OTHER: Final = "other"
"""The label value of all names beyond the limits."""
MAX_CLUSTERS: Final = 100
MAX_WEBHOOKS_PER_CLUSTER: Final = 20


class ClusterNames:
    """The label values of logical clusters: the names of the first ones with requests, for the life of the process."""

    def __init__(self, *, max_clusters: int = MAX_CLUSTERS) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._known: Final[set[str]] = set()

    def find_label(self, cluster: str) -> str:
        """Return the label value of a cluster, without adding one."""
        return cluster if cluster in self._known else OTHER

    def add_label(self, cluster: str, *, is_known: bool) -> str:
        """Return the label value of a cluster; add its name if there is room.

        Args:
            cluster: The name.
            is_known: Whether the cluster exists; other names are not added.
        """
        if is_known and cluster not in self._known and len(self._known) < self._max_clusters:
            self._known.add(cluster)
        return self.find_label(cluster)


class WebhookNames:
    """The label values of logical clusters and of their webhooks: the first names of each, for the life of the process.

    A limit per cluster keeps room for other clusters. There are 2,000 names at most, each with 2 types, 4 outcomes and
    some HTTP codes.
    """

    def __init__(
        self, *, max_clusters: int = MAX_CLUSTERS, max_webhooks_per_cluster: int = MAX_WEBHOOKS_PER_CLUSTER
    ) -> None:
        """Prepare."""
        self._max_clusters: Final = max_clusters
        self._max_webhooks: Final = max_webhooks_per_cluster
        self._known: Final[dict[str, set[str]]] = {}

    def add_label(self, cluster: str, webhook: str) -> tuple[str, str]:
        """Return the label values of a webhook; add its names if there is room."""
        webhooks = self._known.get(cluster)
        if webhooks is None:
            if len(self._known) >= self._max_clusters:
                return OTHER, OTHER
            webhooks = self._known[cluster] = set()
        if webhook not in webhooks:
            if len(webhooks) >= self._max_webhooks:
                return cluster, OTHER
            webhooks.add(webhook)
        return cluster, webhook


def group_code(code: int) -> str:
    """Return the label value of a status: a usual code itself, else its class, because webhooks choose codes freely."""
    return str(code) if code in _USUAL else f"{code // 100}xx"


_USUAL: Final = frozenset({0, 200, 400, 401, 403, 404, 429, 500, 502, 503, 504})


# Few: there is a series for each of them and each cluster. `fleethook_review_duration_seconds` has more.
_BUCKETS: Final = (0.005, 0.05, 0.5, 5.0, 30.0)


class ConsumerMetrics:
    """Counts requests by consumer."""

    def __init__(self, registry: CollectorRegistry, names: ClusterNames) -> None:
        """Prepare; ``names`` bounds the values of the label ``cluster``."""
        self._names: Final = names
        self._requests: Final = Counts(
            "fleethook_dispatch_requests",
            "Dispatched and explained requests, by logical cluster, route (mutate, validate, explain) and outcome.",
            ["cluster", "route", "outcome"],
        )
        self._refused: Final = Counts(
            "fleethook_dispatch_requests_refused",
            "Requests refused because of dispatch_workspace_requests, by logical cluster.",
            ["cluster"],
        )
        self._seconds: Final = Observations(
            "fleethook_dispatch_duration_seconds",
            "Time from the last byte of a request to its answer, by logical cluster.",
            ["cluster"],
            buckets=_BUCKETS,
        )
        for one in (self._requests, self._refused, self._seconds):
            registry.register(one)

    def count_answered(self, cluster: str, route: str, outcome: str, *, seconds: float, is_known: bool) -> None:
        """Count one answered request; an unknown cluster gets no series of its own."""
        name = self._names.add_label(cluster, is_known=is_known)
        self._requests.add((name, route, outcome))
        self._seconds.add((name,), seconds)

    def count_refused(self, cluster: str, *, is_known: bool) -> None:
        """Count one request beyond the quota of its cluster."""
        self._refused.add((self._names.add_label(cluster, is_known=is_known),))

    def gauges(
        self, requests: Callable[[], Mapping[str, int]], calls: Callable[[], Mapping[str, int]]
    ) -> Iterator[Collector]:
        """Yield the gauges of requests and calls in flight; the arguments return their number by cluster."""
        text = "Requests that are being answered, by logical cluster."
        yield Gauges("fleethook_dispatch_requests_in_flight", text, partial(self._add_up, requests), "cluster")
        text = "Webhook calls in flight, by logical cluster."
        yield Gauges("fleethook_dispatch_calls_in_flight", text, partial(self._add_up, calls), "cluster")

    def _add_up(self, read: Callable[[], Mapping[str, int]]) -> Iterator[tuple[dict[str, str], float]]:
        """Yield numbers by logical cluster. Clusters without a name among the series count together."""
        sums: Tally[str] = Tally()
        for cluster, count in read().items():
            sums[self._names.find_label(cluster)] += count
        for name, count in sums.items():
            yield {"cluster": name}, count


class CallMetrics(Collector):
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
