"""Families of Prometheus metrics: counters and histograms that are plain numbers, and gauges read at a scrape.

The metrics of prometheus_client lock a mutex for each number, which takes a part of the time of a review.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class _Count:
    """One counter."""

    __slots__ = ("created", "value")

    def __init__(self) -> None:
        self.created: Final = time.time()
        self.value = 0.0


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
        self._counts: Final[dict[Labels, _Count]] = {}

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Count one, or an amount."""
        count = self._counts.get(labels)
        if count is None:
            count = self._counts[labels] = _Count()
        count.value += amount

    def collect(self) -> Iterator[Metric]:
        """Yield the counter with its current samples."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count.value, created=count.created)
        yield family


class _Observed:
    """One histogram: the number of values in each bucket, not cumulated."""

    __slots__ = ("buckets", "created", "exemplars", "sum")

    def __init__(self, size: int) -> None:
        self.created: Final = time.time()
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
            family.add_sample(f"{self._name}_created", named, series.created)
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
