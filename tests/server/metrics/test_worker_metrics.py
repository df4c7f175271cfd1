"""The metrics of several worker processes."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily

from fleethook.server.metrics.metrics import Gauges
from fleethook.server.metrics.tallies import MULTIPROCESS
from fleethook.server.metrics.worker_metrics import WorkerMetrics, is_running, merge_workers, read_published
from tests.serving import ROOT
from tests.waiting import wait_for


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
        "from fleethook.server.metrics.tallies import Counts; from fleethook.server.metrics.worker_metrics import WorkerMetrics; "
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
