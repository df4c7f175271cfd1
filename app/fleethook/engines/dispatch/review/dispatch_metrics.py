"""Prometheus metrics of dispatching, by logical cluster, and of webhook calls. The number of series is bounded."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.server.metrics import SECONDS_BUCKETS, Counts, FirstNames, Gauges, Observations

MAX_CLUSTERS: Final = 100
MAX_WEBHOOKS_PER_CLUSTER: Final = 20


class WebhookNames:
    """The label values of logical clusters and of their webhooks: the first names of each, for the life of the process.

    A limit per cluster keeps room for other clusters. There are 2,000 names at most, each with 2 types, 4 outcomes and
    some HTTP codes.
    """

    def __init__(self, *, max_clusters: int = MAX_CLUSTERS) -> None:
        """Prepare."""
        self._clusters: Final = FirstNames(max_clusters)
        self._webhooks: Final[dict[str, FirstNames]] = {}

    def add_label(self, cluster: str, webhook: str) -> tuple[str, str]:
        """Return the label values of a webhook; add its names if there is room."""
        label = self._clusters.add_label(cluster)
        webhooks = self._webhooks.get(cluster)
        if webhooks is None:
            if label != cluster:
                return label, label
            webhooks = self._webhooks[cluster] = FirstNames(MAX_WEBHOOKS_PER_CLUSTER)
        return label, webhooks.add_label(webhook)


def group_code(code: int) -> str:
    """Return the label value of a status: a usual code itself, else its class, because webhooks choose codes freely."""
    return str(code) if code in _USUAL else f"{code // 100}xx"


_USUAL: Final = frozenset({0, 200, 400, 401, 403, 404, 429, 500, 502, 503, 504})


# Few: there is a series for each of them and each cluster. `fleethook_review_duration_seconds` has more.
_BUCKETS: Final = (0.005, 0.05, 0.5, 5.0, 30.0)


class DispatchMetrics:
    """Counts dispatched requests by logical cluster, and the calls of their webhooks."""

    def __init__(self, *, max_clusters: int = MAX_CLUSTERS) -> None:
        """Prepare; ``max_clusters`` bounds the values of the label ``cluster``."""
        self._clusters: Final = FirstNames(max_clusters)
        self._webhook_names: Final = WebhookNames(max_clusters=max_clusters)
        self._requests: Final = Counts(
            "fleethook_dispatch_requests",
            "Dispatched and explained requests, by logical cluster, route (mutate, validate, explain) and outcome.",
            ["cluster", "route", "outcome"],
        )
        self._refused: Final = Counts(
            "fleethook_dispatch_requests_refused",
            "Requests refused because their logical cluster has its share of max_connections, by logical cluster.",
            ["cluster"],
        )
        self._seconds: Final = Observations(
            "fleethook_dispatch_duration_seconds",
            "Time from the last byte of a request to its answer, by logical cluster.",
            ["cluster"],
            buckets=_BUCKETS,
        )
        self._webhooks: Final = Counts(
            "fleethook_webhook_requests",
            "Webhook calls made while dispatching reviews, by outcome and HTTP status. Clusters beyond 100, "
            "and webhooks beyond 20 of a cluster, count as `other`.",
            ["cluster", "webhook", "type", "outcome", "code"],
        )
        self._webhook_seconds: Final = Observations(
            "fleethook_webhook_duration_seconds",
            "Duration of webhook calls made while dispatching reviews.",
            ["type"],
            buckets=SECONDS_BUCKETS,
        )

    def count_answered(self, cluster: str, route: str, outcome: str, *, seconds: float, is_known: bool) -> None:
        """Count one answered request; an unknown cluster gets no series of its own."""
        name = self._find_label(cluster, is_known=is_known)
        self._requests.add((name, route, outcome))
        self._seconds.add((name,), seconds)

    def count_refused(self, cluster: str, *, is_known: bool) -> None:
        """Count one request beyond the quota of its cluster."""
        self._refused.add((self._find_label(cluster, is_known=is_known),))

    def count_webhook_call(self, webhook: Webhook, *, outcome: str, code: int, seconds: float) -> None:
        """Count one call of a webhook that a review was dispatched to."""
        cluster, name = self._webhook_names.add_label(webhook.cluster, webhook.uid)
        self._webhooks.add((cluster, name, webhook.phase, outcome, group_code(code)))
        self._webhook_seconds.add((webhook.phase,), seconds)

    def collectors(
        self, requests: Callable[[], Mapping[str, int]], calls: Callable[[], Mapping[str, int]]
    ) -> Iterator[Collector]:
        """Yield all metrics; the arguments return the requests and the calls in flight, by cluster."""
        yield from (self._requests, self._refused, self._seconds, self._webhooks, self._webhook_seconds)
        text = "Requests that are being answered, by logical cluster."
        yield Gauges("fleethook_dispatch_requests_in_flight", text, partial(self._add_up, requests), "cluster")
        text = "Webhook calls in flight, by logical cluster."
        yield Gauges("fleethook_dispatch_calls_in_flight", text, partial(self._add_up, calls), "cluster")

    def _find_label(self, cluster: str, *, is_known: bool) -> str:
        return self._clusters.add_label(cluster) if is_known else self._clusters.find_label(cluster)

    def _add_up(self, read: Callable[[], Mapping[str, int]]) -> Iterator[tuple[dict[str, str], float]]:
        """Yield numbers by logical cluster. Clusters without a name among the series count together."""
        sums: Tally[str] = Tally()
        for cluster, count in read().items():
            sums[self._clusters.find_label(cluster)] += count
        for name, count in sums.items():
            yield {"cluster": name}, count


class CallMetrics(Collector):
    """The numbers of webhook calls: in flight, waiting, refused, and repeated."""

    def __init__(self, client: HookClient) -> None:
        self._client: Final = client

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        calls = self._client.calls
        yield GaugeMetricFamily("fleethook_webhook_calls_in_flight", "Webhook calls in flight.", calls.total)
        yield GaugeMetricFamily(
            "fleethook_webhook_calls_waiting", "Webhook calls that wait for other calls to end.", calls.waiting
        )
        yield CounterMetricFamily(
            "fleethook_webhook_calls_refused",
            "Webhook calls refused because too many others were in flight.",
            calls.refused,
        )
        retries = CounterMetricFamily(
            "fleethook_webhook_call_retries",
            "Webhook calls repeated because of a Retry-After header, by status: 429 or 5xx.",
            labels=["code"],
        )
        for code, count in self._client.retries.items():
            retries.add_metric([code], count)
        yield retries
