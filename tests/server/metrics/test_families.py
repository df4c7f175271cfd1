"""Counters and histograms, beside those of prometheus_client."""

import re
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder

from fleethook.server.metrics.families import Counts, Observations

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


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_the_exposition_equals_that_of_prometheus_client(accept: str) -> None:
    shown = text(count_ours, accept)
    assert shown == text(count_theirs, accept)
    assert shown.count("TIME") >= 4
