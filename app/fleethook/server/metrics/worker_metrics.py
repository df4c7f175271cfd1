"""Metrics that are read at a scrape, for servers with several worker processes.

prometheus_client shares only numbers that it counts in files. Numbers that are read at the scrape, such as gauges,
belong to the process that answers it. So each worker writes its own to a file every few seconds, and the worker that
answers a scrape adds the files of the others to its own numbers.
"""

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

MULTIPROCESS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the shared directory of worker processes."""

Labels = tuple[str, ...]


class _Shared:
    """The numbers of one metric in a file that every worker process reads."""

    def __init__(self, kind: str, name: str, directory: str) -> None:
        # The reader finds the kind at the beginning of the file's name.
        path = Path(directory) / f"{kind}_{name}_{os.getpid()}.db"
        self._numbers: Final = MmapedDict(str(path))  # type: ignore[no-untyped-call]

    def write(self, key: str, number: float) -> None:
        self._numbers.write_value(key, number, 0.0)  # type: ignore[no-untyped-call]


def _share(kind: str, name: str) -> _Shared | None:
    directory = os.environ.get(MULTIPROCESS)
    return _Shared(kind, name, directory) if directory else None


class _Count:
    """One counter."""

    __slots__ = ("created", "key", "value")

    def __init__(self, key: str) -> None:
        self.key: Final = key
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
        self._shared: Final = _share("counter", name)

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Count one, or an amount."""
        count = self._counts.get(labels)
        if count is None:
            count = self._counts[labels] = _Count(_key(self._name, "_total", self._labels, labels, self._text))
        count.value += amount
        if self._shared is not None:
            self._shared.write(count.key, count.value)

    def collect(self) -> Iterator[Metric]:
        """Yield the counter with its current samples."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count.value, created=count.created)
        yield family


class _Observed:
    """One histogram: the number of values in each bucket, not cumulated."""

    __slots__ = ("buckets", "created", "exemplars", "keys", "sum", "sum_key")

    def __init__(self, sum_key: str, keys: list[str]) -> None:
        self.sum_key: Final = sum_key
        self.keys: Final = keys
        self.created: Final = time.time()
        self.sum = 0.0
        self.buckets: Final = [0.0] * len(keys)
        self.exemplars: Final[list[Exemplar | None]] = [None] * len(keys)


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
        self._shared: Final = _share("histogram", name)

    def add(self, labels: Labels, value: float, *, exemplar: dict[str, str] | None = None) -> None:
        """Count one value.

        Args:
            labels: The values of the labels.
            value: The value.
            exemplar: Labels of an example for the value's bucket; 128 characters at most.
        """
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._make(labels)
        # A value equal to a bound belongs to the bucket below it.
        place = bisect_left(self._bounds, value)
        series.buckets[place] += 1.0
        series.sum += value
        if exemplar is not None:
            series.exemplars[place] = Exemplar(exemplar, value, time.time())
        if self._shared is not None:
            self._shared.write(series.keys[place], series.buckets[place])
            self._shared.write(series.sum_key, series.sum)

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

    def _make(self, labels: Labels) -> _Observed:
        names = (*self._labels, "le")
        keys = [_key(self._name, "_bucket", names, (*labels, bound), self._text) for bound in self._names]
        series = _Observed(_key(self._name, "_sum", self._labels, labels, self._text), keys)
        if self._shared is not None:
            for key in (*keys, series.sum_key):
                self._shared.write(key, 0.0)
        return series


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


def _key(name: str, suffix: str, names: Labels, values: Labels, text: str) -> str:
    return mmap_key(name, f"{name}{suffix}", list(names), list(values), text)


PUBLISH_SECONDS: Final = 2.0
"""The interval of publishing, and so the maximum age of numbers. Prometheus scrapes every 15 to 60 seconds."""

# Every worker has the same objects, certificates and Lease, so a sum over workers would mean nothing.
_LARGEST: Final = frozenset(
    {
        "fleethook_customizations_refused",
        "fleethook_leader",
        "fleethook_scripts",
        "fleethook_store_age_seconds",
        "fleethook_store_objects",
        "fleethook_store_source_failing",
    }
)
_SMALLEST: Final = frozenset({"fleethook_certificate_expiry_timestamp_seconds"})
_FILES: Final = "read_*.json"

_Labels = tuple[tuple[str, str], ...]


class _Sample(NamedTuple):
    name: str
    labels: _Labels
    value: float


class _Family(NamedTuple):
    name: str
    text: str
    type: str
    samples: list[_Sample]


_decoder: Final = msgspec.json.Decoder(list[_Family])


class WorkerMetrics(Collector):
    """The metrics of all worker processes."""

    def __init__(self, registry: CollectorRegistry, directory: Path) -> None:
        """Prepare.

        Args:
            registry: The metrics of this process.
            directory: The directory that all workers share.
        """
        self._registry: Final = registry
        self._directory: Final = directory

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that prometheus_client shares, then the others of all workers."""
        counted = CollectorRegistry()
        MultiProcessCollector(counted, path=str(self._directory))  # type: ignore[no-untyped-call]
        shared = list(counted.collect())
        yield from shared
        own = self._read_own({family.name for family in shared})
        others = (read_published(path) for path in sorted(self._directory.glob(_FILES)) if _owner(path) != os.getpid())
        yield from merge_workers([own, *others])

    def publish(self) -> None:
        """Write the numbers of this process for the others."""
        counted = CollectorRegistry()
        MultiProcessCollector(counted, path=str(self._directory))  # type: ignore[no-untyped-call]
        encoded = msgspec.json.encode(self._read_own({family.name for family in counted.collect()}))
        path = self._directory / _FILES.replace("*", str(os.getpid()))
        # Another worker never reads half a file.
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(encoded)
        unfinished.replace(path)

    async def keep_published(self) -> NoReturn:
        """Publish every few seconds, until cancelled."""
        while True:
            self.publish()
            await asyncio.sleep(PUBLISH_SECONDS)

    def _read_own(self, shared: set[str]) -> list[_Family]:
        return [
            _Family(
                family.name,
                family.documentation,
                family.type,
                [_Sample(one.name, tuple(sorted(one.labels.items())), one.value) for one in family.samples],
            )
            for family in self._registry.collect()
            if family.name not in shared
        ]


def read_published(path: Path) -> list[_Family]:
    """Return the metrics that another worker wrote. If it has ended, return only counters: they must not decrease."""
    try:
        families = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return []
    return families if is_running(_owner(path)) else [family for family in families if family.type == "counter"]


def merge_workers(workers: Iterable[list[_Family]]) -> Iterator[Metric]:
    """Yield the metrics of several workers as one: sums, or the largest or smallest value where a sum means nothing."""
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, _Labels], float]] = {}
    for families in workers:
        for name, text, kind, samples in families:
            if name not in metrics:
                metrics[name], values[name] = Metric(name, text, kind), {}
            found = values[name]
            for sample, labels, value in samples:
                key = (sample, labels)
                found[key] = value if key not in found else _combine(name, sample, found[key], value)
    for name, metric in metrics.items():
        for (sample, labels), value in values[name].items():
            metric.add_sample(sample, dict(labels), value)
        yield metric


def _combine(name: str, sample: str, first: float, second: float) -> float:
    if name in _LARGEST:
        return max(first, second)
    if name in _SMALLEST or sample.endswith("_created"):
        return min(first, second)
    return first + second


def is_running(pid: int) -> bool:
    """Return whether a process of this user exists."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _owner(path: Path) -> int:
    return int(path.stem.removeprefix("read_"))
