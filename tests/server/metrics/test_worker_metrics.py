"""The metrics of several worker processes."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from fleethook.server.metrics.worker_metrics import (
    MULTIPROCESS,
    Counts,
    Gauges,
    Observations,
    WorkerMetrics,
    is_running,
    merge_workers,
    read_published,
)
from tests.serving import ROOT
from tests.waiting import wait_for

BUCKETS = (0.001, 0.01, 2.5, 30.0)
COUNTED = [("a", "x"), ("a", "x"), ("b", 'quo"te\n')]
OBSERVED = [("a", 0.0), ("a", 0.001), ("a", 0.0011), ("b", 2.5), ("b", 1e9), ("a", 0.2), ("c", 30.0)]
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def ours(registry: CollectorRegistry) -> tuple[Counts, Observations]:
    counts = Counts("reviews", "All of them.", ["route", "outcome"])
    observations = Observations("seconds", "Their time.", ["route"], buckets=BUCKETS)
    registry.register(counts)
    registry.register(observations)
    return counts, observations


def count_ours(registry: CollectorRegistry) -> None:
    counts, observations = ours(registry)
    for labels in COUNTED:
        counts.add(labels)
    for route, value in OBSERVED:
        observations.add((route,), value, exemplar={"request_id": "r"} if value == 0.2 else None)


def count_theirs(registry: CollectorRegistry) -> None:
    counter = Counter("reviews", "All of them.", ["route", "outcome"], registry=registry)
    histogram = Histogram("seconds", "Their time.", ["route"], buckets=BUCKETS, registry=registry)
    for labels in COUNTED:
        counter.labels(*labels).inc()
    for route, value in OBSERVED:
        histogram.labels(route).observe(value, {"request_id": "r"} if value == 0.2 else None)


def text(count: Callable[[CollectorRegistry], None], accept: str) -> str:
    """Return the exposition without the timestamps of series and exemplars."""
    registry = CollectorRegistry()
    count(registry)
    return timeless(registry, accept)


def timeless(registry: CollectorRegistry, accept: str) -> str:
    encode, _ = choose_encoder(accept)
    return re.sub(r"1\.\d+e\+09|\b\d{10}\.\d+", "TIME", encode(registry).decode())


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MULTIPROCESS, raising=False)


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_the_exposition_equals_that_of_prometheus_client(accept: str) -> None:
    shown = text(count_ours, accept)
    assert shown == text(count_theirs, accept)
    assert shown.count("TIME") >= 4


def test_worker_processes_share_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = text(twice, "")
    monkeypatch.setenv(MULTIPROCESS, str(tmp_path))
    for _ in range(2):
        worker = "from prometheus_client import CollectorRegistry; from tests.server.metrics import test_worker_metrics as tests; "
        subprocess.run([sys.executable, "-c", f"{worker} tests.count_ours(CollectorRegistry())"], check=True, cwd=ROOT)
    registry = CollectorRegistry()
    collector: Any = MultiProcessCollector
    collector(registry)
    assert samples(timeless(registry, "")) == samples(both)


def twice(registry: CollectorRegistry) -> None:
    counts, observations = ours(registry)
    for _ in range(2):
        for labels in COUNTED:
            counts.add(labels)
        for route, value in OBSERVED:
            observations.add((route,), value)


def samples(shown: str) -> list[str]:
    return sorted(line for line in shown.splitlines() if not line.startswith("#") and "_created" not in line)


class Retries:
    """A counter that is read at a scrape."""

    def __init__(self, value: float) -> None:
        self.value = value

    def collect(self) -> list[CounterMetricFamily]:
        family = CounterMetricFamily("fleethook_test_retries", "Retries.", labels=["code"])
        family.add_metric(["429"], self.value)
        return [family]


def registry_of(value: float) -> CollectorRegistry:
    registry = CollectorRegistry()
    for name in (
        "fleethook_connections",
        "fleethook_store_age_seconds",
        "fleethook_certificate_expiry_timestamp_seconds",
    ):
        registry.register(Gauges(name, "Text.", lambda: iter([({"source": "a"}, value)]), "source"))
    registry.register(Retries(value))
    return registry


def values(metrics: WorkerMetrics) -> dict[str, float]:
    return {sample.name: sample.value for family in metrics.collect() for sample in family.samples}


def publish_elsewhere(directory: Path, value: float, *, then: str = "") -> "subprocess.Popen[str]":
    """Publish the numbers of another process, which then prints a line."""
    code = (
        "from pathlib import Path; from fleethook.server.metrics.worker_metrics import WorkerMetrics; "
        "from tests.server.metrics.test_worker_metrics import registry_of; "
        f"WorkerMetrics(registry_of({value}), Path({str(directory)!r})).publish(); print('done', flush=True); {then}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    return process


def test_a_scrape_combines_the_numbers_of_all_workers(tmp_path: Path) -> None:
    other = publish_elsewhere(tmp_path, 5.0, then="input()")
    try:
        metrics = WorkerMetrics(registry_of(3.0), tmp_path)
        metrics.publish()  # Its own file counts once only.
        assert values(metrics) == {
            "fleethook_connections": 8.0,
            "fleethook_store_age_seconds": 5.0,
            "fleethook_certificate_expiry_timestamp_seconds": 3.0,
            "fleethook_test_retries_total": 8.0,
        }
    finally:
        other.communicate("\n")


def test_only_the_counters_of_an_ended_worker_remain(tmp_path: Path) -> None:
    publish_elsewhere(tmp_path, 5.0).communicate()
    found = values(WorkerMetrics(registry_of(3.0), tmp_path))
    assert found["fleethook_test_retries_total"] == 8.0
    assert found["fleethook_connections"] == 3.0
    assert found["fleethook_store_age_seconds"] == 3.0


def test_counted_metrics_are_left_to_prometheus_client(tmp_path: Path) -> None:
    # In a process of its own, because nothing closes the files of counters.
    code = (
        "import sys; from pathlib import Path; from prometheus_client import CollectorRegistry; "
        "from fleethook.server.metrics.worker_metrics import Counts; from fleethook.server.metrics.worker_metrics import WorkerMetrics; "
        "registry = CollectorRegistry(); counts = Counts('fleethook_test_reviews', 'Reviews.', ['route']); "
        "counts.add(('/a',), 2.0); registry.register(counts); "
        "WorkerMetrics(registry, Path(sys.argv[1])).publish()"
    )
    environment = {**os.environ, MULTIPROCESS: str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, env=environment)
    (published,) = tmp_path.glob("read_*.json")
    assert read_published(published) == []
    assert values(WorkerMetrics(CollectorRegistry(), tmp_path)) == {"fleethook_test_reviews_total": 2.0}


def test_an_unreadable_file_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "read_1.json").write_bytes(b"[[")
    assert read_published(tmp_path / "read_1.json") == []
    assert read_published(tmp_path / "read_2.json") == []
    assert list(merge_workers([[], []])) == []


def test_an_ended_process_is_not_running() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert is_running(os.getpid())
    assert not is_running(process.pid)


async def test_numbers_are_published_until_cancelled(tmp_path: Path) -> None:
    task = asyncio.create_task(WorkerMetrics(registry_of(1.0), tmp_path).keep_published())
    path = tmp_path / f"read_{os.getpid()}.json"
    await asyncio.to_thread(wait_for, path.exists)
    task.cancel()
    await asyncio.wait([task])
    assert len(read_published(path)) == 4
