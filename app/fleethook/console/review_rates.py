"""Series of reviews per second, latency and verdicts, from samples of metrics or from recordings: charts and a table.

The series have at most `MAX_BINS` + 1 points. A point is the average of its time span, so a chart of a day is as small
as one of a quarter of an hour. A duration is None where nothing was measured.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

from fleethook.cluster.conditions_and_events import parse_time
from fleethook.console.reviews.review_index import ReviewSummary
from fleethook.model.json import JSONObject

_K = TypeVar("_K", bound=Hashable)

MAX_BINS: Final = 60
"""Points of a series."""
_LAST_TIME: Final = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
_MAX_SECONDS: Final = 1e6
_MEDIAN: Final = 0.5
_TAIL: Final = 0.99


class Sample(NamedTuple):
    """The counters of a server at one time.

    Attributes:
        time: Seconds since the epoch.
        reviews: Answered reviews, by route, operation and outcome.
        buckets: Reviews that took at most some seconds, by route and that bound; the last bound is infinite.
    """

    time: float
    reviews: Mapping[tuple[str, str, str], float]
    buckets: Mapping[tuple[str, float], float]


class Increase(NamedTuple):
    """The reviews that a server answered between two samples.

    Attributes:
        start: Seconds since the epoch.
        end: Seconds since the epoch.
        verdicts: Reviews by outcome.
        buckets: Reviews that took at most some seconds, by that bound.
    """

    start: float
    end: float
    verdicts: Mapping[str, float]
    buckets: Mapping[float, float]


class Rates(NamedTuple):
    """Series of equal length.

    Attributes:
        times: The end of each time span, in seconds since the epoch.
        per_second: Answered reviews per second.
        median: The duration in seconds that half of the reviews do not exceed.
        tail: The duration in seconds that 99 % of the reviews do not exceed.
        verdicts: Reviews per second, by verdict.
    """

    times: Sequence[float] = ()
    per_second: Sequence[float] = ()
    median: Sequence[float | None] = ()
    tail: Sequence[float | None] = ()
    verdicts: Mapping[str, Sequence[float]] = {}


def measure_increase(before: Sample, after: Sample) -> Increase | None:
    """Return the reviews between two samples of one server, None if the clock did not advance.

    Counters of a process never decrease. If one does, or is gone, the server has started again between the samples,
    and all its counters began at 0.
    """
    if after.time <= before.time:
        return None
    has_restarted = _has_decreased(before.reviews, after.reviews) or _has_decreased(before.buckets, after.buckets)
    verdicts: defaultdict[str, float] = defaultdict(float)
    buckets: defaultdict[float, float] = defaultdict(float)
    for review, total in after.reviews.items():
        verdicts[review[2]] += total - (0.0 if has_restarted else before.reviews.get(review, 0.0))
    for bucket, total in after.buckets.items():
        buckets[bucket[1]] += total - (0.0 if has_restarted else before.buckets.get(bucket, 0.0))
    return Increase(before.time, after.time, dict(verdicts), dict(buckets))


def _has_decreased(before: Mapping[_K, float], after: Mapping[_K, float]) -> bool:
    return any(after.get(key, -1.0) < total for key, total in before.items())


def estimate_quantile(rank: float, buckets: Mapping[float, float]) -> float | None:
    """Return a quantile of a histogram as PromQL's ``histogram_quantile`` does.

    Args:
        rank: From 0 to 1.
        buckets: The number of observations up to each bound, of which one is infinite.

    Returns:
        A bound that is interpolated within its bucket. In the infinite bucket, the highest finite bound. None without
        observations.
    """
    total = buckets.get(math.inf, 0.0)
    if total <= 0:
        return None
    target, lower, below = rank * total, 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if math.isinf(bound):
            break
        if count >= target:
            share = 1.0 if count == below else (target - below) / (count - below)
            return lower + (bound - lower) * share
        lower, below = bound, count
    return lower


def rate_increases(increases: Iterable[Increase], *, window: int, now: float) -> Rates:
    """Return the series of a server.

    Args:
        increases: The reviews between consecutive samples, oldest first.
        window: Seconds before ``now`` that the series cover.
        now: Seconds since the epoch.
    """
    width = window / MAX_BINS
    bins: defaultdict[int, list[Increase]] = defaultdict(list)
    for increase in increases:
        if now - window < increase.end <= now:
            bins[math.ceil(increase.end / width)].append(increase)
    rows = [(number * width, *_join_increases(members)) for number, members in sorted(bins.items())]
    return Rates(
        [min(end, now) for end, *_ in rows],
        [sum(verdicts.values()) / seconds for _, seconds, verdicts, _ in rows],
        [estimate_quantile(_MEDIAN, buckets) for *_, buckets in rows],
        [estimate_quantile(_TAIL, buckets) for *_, buckets in rows],
        _split_verdicts([(seconds, verdicts) for _, seconds, verdicts, _ in rows]),
    )


def _join_increases(members: Sequence[Increase]) -> tuple[float, Mapping[str, float], Mapping[float, float]]:
    verdicts: defaultdict[str, float] = defaultdict(float)
    buckets: defaultdict[float, float] = defaultdict(float)
    for member in members:
        for name, total in member.verdicts.items():
            verdicts[name] += total
        for bound, total in member.buckets.items():
            buckets[bound] += total
    return sum(member.end - member.start for member in members), verdicts, buckets


def rate_recordings(reviews: Iterable[ReviewSummary], *, window: int) -> Rates:
    """Return the series of recorded reviews.

    Args:
        reviews: The reviews in any order. Those whose time cannot be read are left out.
        window: Seconds before the newest review that the series cover.
    """
    timed = [(time, review) for review in reviews if (time := _read_time(review.time)) is not None]
    if not timed:
        return Rates()
    width = window / MAX_BINS
    last = math.ceil(max(time for time, _ in timed) / width)
    bins: dict[int, list[ReviewSummary]] = {number: [] for number in range(last - MAX_BINS + 1, last + 1)}
    for time, one in timed:
        if (members := bins.get(math.ceil(time / width))) is not None:
            members.append(one)
    counts: list[tuple[float, Mapping[str, float]]] = [
        (width, {name: float(total) for name, total in Counter(member.verdict for member in members).items()})
        for members in bins.values()
    ]
    durations = [
        sorted(member.seconds for member in members if 0 <= member.seconds < _MAX_SECONDS) for members in bins.values()
    ]
    return Rates(
        [number * width for number in bins],
        [len(members) / width for members in bins.values()],
        [_select_quantile(_MEDIAN, duration) for duration in durations],
        [_select_quantile(_TAIL, duration) for duration in durations],
        _split_verdicts(counts),
    )


def _read_time(text: str) -> float | None:
    time = parse_time(text)
    seconds = -1.0 if time is None else time.timestamp()
    return seconds if 0 <= seconds < _LAST_TIME else None


def _select_quantile(rank: float, ordered: Sequence[float]) -> float | None:
    """Return the nearest-rank quantile of sorted numbers."""
    return ordered[max(0, math.ceil(rank * len(ordered)) - 1)] if ordered else None


def _split_verdicts(rows: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, Sequence[float]]:
    """Return the reviews per second of each verdict."""
    names = sorted({name for _, totals in rows for name, total in totals.items() if total > 0})
    return {name: [totals.get(name, 0.0) / seconds for seconds, totals in rows] for name in names}


MISSING: Final = "-"
"""The text of a figure that was not measured."""


class RateRow(NamedTuple):
    """One time span of the table: texts, `MISSING` where nothing was measured."""

    time: str
    per_second: str
    median: str
    tail: str
    verdicts: tuple[str, ...]


def build_charts(rates: Rates) -> list[JSONObject]:
    """Return the charts: ``title``, ``unit``, ``times`` in seconds, ``lines`` (name, values), ``is_empty``."""
    median = [None if one is None else one * 1000 for one in rates.median]
    tail = [None if one is None else one * 1000 for one in rates.tail]
    return [
        _build_chart("Reviews per second", "/s", rates, {"all": list(rates.per_second)}),
        _build_chart("Duration", "ms", rates, {"median": median, "99 %": tail}),
        _build_chart("Verdicts per second", "/s", rates, rates.verdicts),
    ]


def _build_chart(title: str, unit: str, rates: Rates, lines: Mapping[str, Sequence[float | None]]) -> JSONObject:
    named = [{"name": name, "values": list(values)} for name, values in lines.items()]
    return {
        "title": title,
        "unit": unit,
        "times": list(rates.times),
        "lines": named,
        "is_empty": not any(map(any, lines.values())),
    }


def list_rate_rows(rates: Rates) -> list[RateRow]:
    """Return the rows of the table, newest first."""
    rows = [
        RateRow(
            f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}",
            _format(rates.per_second[index]),
            _format(rates.median[index], factor=1000),
            _format(rates.tail[index], factor=1000),
            tuple(_format(values[index]) for values in rates.verdicts.values()),
        )
        for index, time in enumerate(rates.times)
    ]
    return rows[::-1]


def _format(value: float | None, *, factor: float = 1) -> str:
    """Return a figure with three significant digits."""
    if value is None:
        return MISSING
    return f"{value * factor:.3g}" if value * factor < 1000 else f"{value * factor:.0f}"
