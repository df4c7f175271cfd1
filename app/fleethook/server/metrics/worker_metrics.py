"""Metrics that are read at a scrape, for servers with several worker processes.

prometheus_client shares only numbers that it counts in files. Numbers that are read at the scrape, such as gauges,
belong to the process that answers it. So each worker writes its own to a file every few seconds, and the worker that
answers a scrape adds the files of the others to its own numbers.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

PUBLISH_SECONDS: Final = 2.0
"""The largest age of the numbers of other workers. Prometheus scrapes every 15 to 60 seconds."""

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
    """Return the metrics that another worker wrote; of an ended one only the counters, which must not decrease."""
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
