import math
from typing import Any

import pytest

from fleethook.console.review_rates import (
    MAX_BINS,
    Increase,
    Rates,
    Sample,
    build_charts,
    estimate_quantile,
    measure_increase,
    rate_increases,
    rate_recordings,
)
from fleethook.console.reviews.review_index import ReviewSummary

WINDOW = 600  # bins of 10 s


def sample(time: float, allowed: float, denied: float | None = None, slow: float = 0.0) -> Sample:
    reviews = {("/a", "CREATE", "allowed"): allowed}
    if denied is not None:
        reviews["/b", "CREATE", "denied"] = denied
    total = allowed + (denied or 0.0)
    return Sample(time, reviews, {("/a", 0.1): total - slow, ("/a", math.inf): total})


def review(time: str, seconds: float = 0.001, verdict: str = "allowed") -> ReviewSummary:
    return ReviewSummary(0, 1, time, "/a", "", "apps", "Deployment", "n", "w", "CREATE", verdict, seconds, "u")


def test_an_increase_is_the_difference_of_two_samples() -> None:
    assert measure_increase(sample(10, 5, slow=1), sample(15, 9, slow=2)) == Increase(
        10, 15, {"allowed": 4}, {0.1: 3, math.inf: 4}
    )


@pytest.mark.parametrize("after", [sample(15, 2), sample(15, 9)], ids=["a smaller counter", "a missing series"])
def test_all_counters_begin_at_zero_after_a_restart(after: Sample) -> None:
    before = sample(10, 5, denied=1)
    increase = measure_increase(before, after)
    assert increase is not None
    assert increase.verdicts["allowed"] == after.reviews["/a", "CREATE", "allowed"]
    assert increase.buckets[math.inf] == after.buckets["/a", math.inf]


@pytest.mark.parametrize(
    ("rank", "buckets", "expected"),
    [
        (0.5, {0.1: 10, 0.2: 20, math.inf: 20}, 0.1),
        (0.75, {0.1: 10, 0.2: 20, math.inf: 20}, 0.15),
        (0.25, {0.1: 10, math.inf: 10}, 0.025),
        (0.99, {0.1: 1, 0.2: 1, math.inf: 100}, 0.2),
        (0.5, {0.1: 0, math.inf: 0}, None),
        (0.5, {}, None),
        (0.5, {math.inf: 3}, 0.0),
    ],
)
def test_quantiles_are_those_of_promql(rank: float, buckets: dict[float, float], expected: Any) -> None:
    assert estimate_quantile(rank, buckets) == (None if expected is None else pytest.approx(expected))


def test_increases_of_one_time_span_are_averaged() -> None:
    slow = {0.1: 0.0, 0.2: 10.0, math.inf: 10.0}
    increases = [
        Increase(980, 985, {"allowed": 10}, {0.1: 10, 0.2: 10, math.inf: 10}),
        Increase(985, 990, {"denied": 10}, slow),
        Increase(990, 995, {"allowed": 5}, {0.1: 0, math.inf: 0}),
    ]
    rates = rate_increases(increases, window=WINDOW, now=995)
    assert rates.times == [990, 995]
    assert rates.per_second == [2.0, 1.0]
    assert rates.median == [pytest.approx(0.1), None]
    assert rates.tail == [pytest.approx(0.198), None]
    assert rates.verdicts == {"allowed": [1.0, 1.0], "denied": [1.0, 0.0]}


def test_a_time_without_samples_is_a_gap_and_not_zero() -> None:
    increases = [Increase(495, 500, {"allowed": 5}, {}), Increase(595, 600, {"allowed": 5}, {})]
    assert rate_increases(increases, window=WINDOW, now=600).times == [500, 600]


def test_recordings_give_the_series_before_the_newest_review() -> None:
    reviews = [
        review("2026-01-01T00:10:00Z", 0.004, "denied"),
        review("2026-01-01T00:09:55Z", 0.002),
        review("2026-01-01T00:09:56.5Z", 0.001),
        review("2026-01-01T00:05:00Z", 0.5),
        review("2025-12-31T00:00:00Z"),
    ]
    rates = rate_recordings(reviews, window=WINDOW)
    assert len(rates.times) == len(rates.per_second) == MAX_BINS
    assert rates.per_second[-1] == pytest.approx(0.3)
    assert (rates.median[-1], rates.tail[-1]) == (0.002, 0.004)
    assert (rates.per_second[-31], rates.median[-31]) == (pytest.approx(0.1), 0.5)
    assert (rates.per_second[0], rates.median[0]) == (0.0, None)
    assert sum(rates.per_second) == pytest.approx(0.4)
    assert rates.verdicts["denied"][-1] == pytest.approx(0.1)


RATES = Rates([0.0, 60.0], [1.0, 12345.6], [0.001, None], [0.01234, None], {"allowed": [1.0, 0.5]})


def test_charts_have_durations_in_milliseconds() -> None:
    charts = build_charts(RATES)
    assert [one["title"] for one in charts] == ["Reviews per second", "Duration", "Verdicts per second"]
    assert all(one["times"] == [0.0, 60.0] for one in charts)
    assert charts[1]["lines"] == [{"name": "median", "values": [1.0, None]}, {"name": "99 %", "values": [12.34, None]}]
    assert charts[2]["lines"] == [{"name": "allowed", "values": [1.0, 0.5]}]
