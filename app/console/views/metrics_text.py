"""Reads the counters that the overview shows from the text of a server's ``/metrics``. No I/O."""

from collections.abc import Iterable
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as Line

from app.console.views.review_rates import Sample

REVIEWS: Final = "fleethook_reviews_total"
DURATIONS: Final = "fleethook_review_duration_seconds_bucket"
CERTIFICATE: Final = "fleethook_certificate_expiry_timestamp_seconds"
MAX_SERIES: Final = 5_000
"""Series that are read. A server has one for each route, operation and outcome, and 18 for each route."""
MAX_LABEL_CHARACTERS: Final = 64
"""Longer values of labels are cut: the outcomes of fleethook have at most 10 characters."""
# A double counts up to this number without gaps; a sum of further ones could be infinite.
_MAX_VALUE: Final = 2.0**53
_PREFIXES: Final = (REVIEWS, DURATIONS, CERTIFICATE)


class MetricsError(ValueError):
    """The text has no metrics of fleethook, or cannot be read; the message quotes none of it."""


def read_sample(text: str, *, time: float) -> Sample:
    """Return the counters of a server.

    Args:
        text: The metrics in the Prometheus text format 0.0.4.
        time: When they were read, in seconds since the epoch.

    Raises:
        MetricsError: The text cannot be used.
    """
    # The other metrics have many series, and the parser takes some 10 µs for each line.
    wanted = [line for line in text.split("\n") if line.startswith(_PREFIXES)]
    if not wanted:
        raise MetricsError("the answer has no metrics of fleethook: give the URL of a server's /metrics")
    if len(wanted) > MAX_SERIES:
        raise MetricsError(f"the answer has more than {MAX_SERIES} series of reviews")
    try:
        lines = [line for family in text_string_to_metric_families("\n".join(wanted) + "\n") for line in family.samples]
        return _collect(lines, time)
    except (ValueError, KeyError, IndexError):
        raise MetricsError("the answer is not in the Prometheus text format") from None


def _collect(lines: Iterable[Line], time: float) -> Sample:
    reviews: dict[tuple[str, str, str], float] = {}
    buckets: dict[tuple[str, float], float] = {}
    ends: list[float] = []
    for line in lines:
        labels = {name: value[:MAX_LABEL_CHARACTERS] for name, value in line.labels.items()}
        if not 0 <= line.value < _MAX_VALUE:  # a NaN, too
            continue
        if line.name == REVIEWS:
            review = labels["route"], labels["operation"], labels["outcome"]
            reviews[review] = reviews.get(review, 0.0) + line.value
        elif line.name == DURATIONS:
            bucket = labels["route"], float(labels["le"])
            buckets[bucket] = buckets.get(bucket, 0.0) + line.value
        elif line.name == CERTIFICATE:
            ends.append(line.value)
    return Sample(time, reviews, buckets, min(ends, default=None))
