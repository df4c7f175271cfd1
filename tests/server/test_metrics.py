"""Counters and histograms, beside those of prometheus_client."""

import re
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import choose_encoder

from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.model.gvk import GroupKind
from fleethook.server.metrics import (
    OTHER,
    CallDurations,
    Counts,
    FirstNames,
    Metrics,
    Observations,
    certificate_gauge,
    exposition,
    store_gauges,
)

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
    """Return the exposition without the timestamps of exemplars, and without the creation times of series."""
    registry = CollectorRegistry()
    count(registry)
    return timeless(registry, accept)


def timeless(registry: CollectorRegistry, accept: str) -> str:
    encode, _ = choose_encoder(accept)
    lines = re.sub(r"1\.\d+e\+09|\b\d{10}\.\d+", "TIME", encode(registry).decode()).splitlines()
    return "\n".join(line for line in lines if "_created" not in line)


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_the_exposition_equals_that_of_prometheus_client(accept: str) -> None:
    shown = text(count_ours, accept)
    assert shown == text(count_theirs, accept)


OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def read(metrics: Metrics, prefix: str) -> dict[str, float]:
    """Return the samples whose names begin with a prefix, without those of buckets."""
    text, _ = metrics.exposition("text/plain")
    lines = [line for line in text.decode().splitlines() if line.startswith(prefix)]
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    return {name: value for name, value in samples.items() if "_bucket" not in name}


def exemplars(metrics: Metrics) -> list[str]:
    text, kind = metrics.exposition(OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text")
    return [line.split(" # ")[1].split(" ")[0] for line in text.decode().splitlines() if " # {" in line]


def count(metrics: Metrics, *, seconds: float = 0.0002, route: str = "/r", trace: str = "") -> None:
    metrics.count_review(route, "CREATE", "allowed", seconds=seconds, trace_id=trace)


def test_reviews_are_counted_by_route_operation_and_outcome() -> None:
    metrics = Metrics()
    metrics.count_review("/a", "CREATE", "patched", seconds=0.5)
    for _ in range(2):
        metrics.count_review("/a", "", "malformed", seconds=0.25)
    assert read(metrics, "fleethook_reviews_total") == {
        'fleethook_reviews_total{operation="CREATE",outcome="patched",route="/a"}': 1,
        'fleethook_reviews_total{operation="",outcome="malformed",route="/a"}': 2,
    }
    assert read(metrics, "fleethook_review_duration_seconds") == {
        'fleethook_review_duration_seconds_count{route="/a"}': 3,
        'fleethook_review_duration_seconds_sum{route="/a"}': 1.0,
    }


def test_traced_answers_have_exemplars() -> None:
    metrics = Metrics()
    count(metrics)
    count(metrics, trace="t" * 32)
    assert exemplars(metrics) == [f'{{trace_id="{"t" * 32}"}}']


def test_the_first_names_have_label_values_of_their_own() -> None:
    names = FirstNames(2)
    assert names.find_label("a") == OTHER
    assert [names.add_label(name) for name in "abca"] == ["a", "b", OTHER, "a"]
    assert [names.find_label(name) for name in "bc"] == ["b", OTHER]


def test_gauges_are_read_when_they_are_scraped() -> None:
    metrics = Metrics()
    metrics.in_flight = 3
    assert read(metrics, "fleethook_reviews_in_flight") == {"fleethook_reviews_in_flight": 3}
    ends = [1.0]
    registry = CollectorRegistry()
    registry.register(certificate_gauge(lambda: ends[-1]))
    ends.append(2.0)
    name = "fleethook_certificate_expiry_timestamp_seconds"
    assert generate_latest(registry).decode().splitlines()[-1] == f"{name} 2.0"


def test_gauges_of_the_store_have_their_values() -> None:
    registry = CollectorRegistry()
    parts = [
        PartState("overriders", synced=True, detail="", age=1.5, failing=False),
        PartState("webhooks", synced=False, detail="refused", age=None, failing=True),
    ]
    for collector in store_gauges(lambda: {GroupKind("apps", "Deployment"): 9}, lambda: iter(parts)):
        registry.register(collector)
    text, _ = exposition(registry, "text/plain")
    assert [line for line in text.decode().splitlines() if line[0] != "#"] == [
        'fleethook_store_objects{group="apps",kind="Deployment"} 9.0',
        'fleethook_store_age_seconds{source="overriders"} 1.5',
        'fleethook_store_source_failing{source="overriders"} 0.0',
        'fleethook_store_source_failing{source="webhooks"} 1.0',
    ]


def test_calls_of_names_beyond_the_limit_count_together() -> None:
    durations = CallDurations("seconds", "Durations.", "rule")
    for number in range(250):
        durations.count(f"rule-{number}", "answered", 0.5)
    (family,) = durations.collect()
    counts = {one.labels["rule"]: one.value for one in family.samples if one.name == "seconds_count"}
    assert len(counts) == 201
    assert counts[OTHER] == 50
