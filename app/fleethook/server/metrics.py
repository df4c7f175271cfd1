"""The Prometheus metrics of a server: those of reviews, and the gauges of the store, the certificate and the leader.

Counters and histograms are plain numbers: the metrics of prometheus_client lock a mutex for each number, which takes a
part of the time of a review. Gauges are read at a scrape. Engines have metrics of their own.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.model.gvk import GroupKind

Labels = tuple[str, ...]


class Counts(Collector):
    """A counter by labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        """Prepare.

        Args:
            name: The name of the metric, without ``_total``.
            text: Its help text.
            labels: The names of its labels.
        """
        self._name: Final = name
        self._text: Final = text
        self._labels: Final = tuple(labels)
        self._counts: Final[dict[Labels, float]] = {}

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Count one, or an amount."""
        self._counts[labels] = self._counts.get(labels, 0.0) + amount

    def collect(self) -> Iterator[Metric]:
        """Yield the counter with its current samples."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class _Observed:
    """One histogram: the number of values in each bucket, not cumulated."""

    __slots__ = ("buckets", "exemplars", "sum")

    def __init__(self, size: int) -> None:
        self.sum = 0.0
        self.buckets: Final = [0.0] * size
        self.exemplars: Final[list[Exemplar | None]] = [None] * size


class Observations(Collector):
    """A histogram by labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str], *, buckets: Sequence[float]) -> None:
        """Prepare.

        Args:
            name: The name of the metric.
            text: Its help text.
            labels: The names of its labels.
            buckets: The upper bounds, ascending, without infinity.
        """
        self._name: Final = name
        self._text: Final = text
        self._labels: Final = tuple(labels)
        self._bounds: Final = tuple(buckets)
        self._names: Final = [floatToGoString(bound) for bound in (*buckets, float("inf"))]  # type: ignore[no-untyped-call]
        self._series: Final[dict[Labels, _Observed]] = {}

    def add(self, labels: Labels, value: float, *, exemplar: dict[str, str] | None = None) -> None:
        """Count one value.

        Args:
            labels: The values of the labels.
            value: The value.
            exemplar: Labels of an example for the value's bucket; 128 characters at most.
        """
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Observed(len(self._names))
        # A value equal to a bound belongs to the bucket below it.
        place = bisect_left(self._bounds, value)
        series.buckets[place] += 1.0
        series.sum += value
        if exemplar is not None:
            series.exemplars[place] = Exemplar(exemplar, value, time.time())

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram with its current samples."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, series in self._series.items():
            named, below = dict(zip(self._labels, labels, strict=True)), 0.0
            for bound, count, exemplar in zip(self._names, series.buckets, series.exemplars, strict=True):
                below += count
                family.add_sample(f"{self._name}_bucket", {**named, "le": bound}, below, exemplar=exemplar)
            family.add_sample(f"{self._name}_count", named, below)
            family.add_sample(f"{self._name}_sum", named, series.sum)
        yield family


class Gauges(Collector):
    """A gauge, or another family, whose samples are read when it is scraped."""

    def __init__(
        self,
        name: str,
        text: str,
        read: Callable[[], Iterable[tuple[Mapping[str, str], float]]],
        *labels: str,
        family: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
    ) -> None:
        """Prepare; ``read`` returns the samples, each with its labels."""
        self._name: Final = name
        self._text: Final = text
        self._read: Final = read
        self._labels: Final = labels
        self._family: Final = family

    def collect(self) -> Iterator[Metric]:
        """Yield the family with its current samples."""
        family = self._family(self._name, self._text, labels=self._labels)
        for labels, value in self._read():
            family.add_metric([labels[name] for name in self._labels], value)
        yield family


# A review takes some 0.1 ms; an apiserver gives up after timeoutSeconds, 30 s at most.
SECONDS_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


OTHER: Final = "other"
"""The label value of all names beyond a limit."""


class FirstNames:
    """Limits the values of a label that users choose: only the first names, for the life of the process, are values."""

    def __init__(self, limit: int) -> None:
        """Prepare for at most ``limit`` names."""
        self._limit: Final = limit
        self._known: Final[set[str]] = set()

    def find_label(self, name: str) -> str:
        """Return the label value of a name, without adding one."""
        return name if name in self._known else OTHER

    def add_label(self, name: str) -> str:
        """Return the label value of a name; add it if there is room."""
        if name not in self._known and len(self._known) < self._limit:
            self._known.add(name)
        return self.find_label(name)


_MAX_CALLED: Final = 200
"""Names of webhooks, and of scripts, that have series of their own in `CallDurations`."""


class CallDurations(Observations):
    """The duration of calls by name and outcome, with series for the first names that users choose."""

    def __init__(self, metric: str, text: str, label: str) -> None:
        """Prepare; ``label`` is for the name."""
        super().__init__(metric, text, [label, "outcome"], buckets=SECONDS_BUCKETS)
        self._first: Final = FirstNames(_MAX_CALLED)

    def count(self, name: str, outcome: str, seconds: float) -> None:
        """Count one call."""
        self.add((self._first.add_label(name), outcome), seconds)


class Metrics:
    """The metrics of one server process, in a registry of their own."""

    def __init__(self) -> None:
        """Prepare."""
        self.registry: Final = CollectorRegistry()
        self._reviews: Final = Counts(
            "fleethook_reviews", "Answered reviews, by route, operation and outcome.", ["route", "operation", "outcome"]
        )
        self._seconds: Final = Observations(
            "fleethook_review_duration_seconds",
            "Time from the last byte of a review to its answer. Exemplars have the trace id.",
            ["route"],
            buckets=SECONDS_BUCKETS,
        )
        self.registry.register(self._reviews)
        self.registry.register(self._seconds)
        self.in_flight = 0
        self.registry.register(
            Gauges("fleethook_reviews_in_flight", "Reviews that are being answered.", lambda: [({}, self.in_flight)])
        )

    def count_review(self, route: str, operation: str, outcome: str, *, seconds: float, trace_id: str = "") -> None:
        """Count one answered review; ``trace_id`` is that of its exported span."""
        self._reviews.add((route, operation, outcome))
        self._seconds.add((route,), seconds, exemplar={"trace_id": trace_id} if trace_id else None)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics as text and its content type, in the format that ``accept`` asks for."""
        return exposition(self.registry, accept)


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics of a registry as text and its content type, in the format that ``accept`` asks for."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def certificate_gauge(read: Callable[[], float]) -> Collector:
    """Return the gauge of the serving certificate; ``read`` returns its end in seconds since the epoch."""
    text = "End of the serving certificate in use, in seconds since the epoch."
    return Gauges("fleethook_certificate_expiry_timestamp_seconds", text, lambda: [({}, read())])


def leader_gauges(is_leading: Callable[[], bool], queued: Callable[[], int]) -> list[Collector]:
    """Return the gauges of a process that competes for a Lease; ``queued`` counts the objects of its controllers."""
    return [
        Gauges(
            "fleethook_leader",
            "1 in the process that holds the Lease and runs controllers.",
            lambda: [({}, float(is_leading()))],
        ),
        Gauges("fleethook_controller_queue_length", "Objects that wait for the controller.", lambda: [({}, queued())]),
    ]


def store_gauges(
    counts: Callable[[], dict[GroupKind, int]], parts: Callable[[], Iterator[PartState]]
) -> Iterator[Collector]:
    """Yield the gauges of a store.

    Args:
        counts: Returns the number of objects by kind.
        parts: Returns the state of each part of the source.
    """

    def objects() -> Iterator[tuple[dict[str, str], float]]:
        for group_kind, count in counts().items():
            yield {"group": group_kind.group, "kind": group_kind.kind}, count

    def seconds() -> Iterator[tuple[dict[str, str], float]]:
        for part in parts():
            if part.age is not None:
                yield {"source": part.name}, part.age

    def read_failing() -> Iterator[tuple[dict[str, str], float]]:
        for part in parts():
            yield {"source": part.name}, float(part.failing)

    yield Gauges("fleethook_store_objects", "Objects in the store.", objects, "group", "kind")
    yield Gauges(
        "fleethook_store_age_seconds",
        "Seconds since a part of the source last confirmed the store: by a list, an event or a bookmark.",
        seconds,
        "source",
    )
    yield Gauges(
        "fleethook_store_source_failing",
        "1 if a part of the source cannot be read now, so that its last good state is used.",
        read_failing,
        "source",
    )
