"""The series of the metrics of recording."""

import pytest

from fleethook.recordings.record.metrics import REASONS, RecordMetrics


def read(metrics: RecordMetrics) -> dict[str, float]:
    """Return the samples: for dropped reviews by reason, for others by name."""
    return {
        sample.labels.get("reason") or sample.name: sample.value
        for collector in metrics.collectors()
        for family in collector.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


@pytest.fixture
def metrics() -> RecordMetrics:
    return RecordMetrics()


def test_all_series_exist_before_the_first_review(metrics: RecordMetrics) -> None:
    assert read(metrics) == {
        "fleethook_recorded_reviews_total": 0,
        "fleethook_record_bytes_total": 0,
        "fleethook_record_errors_total": 0,
        **dict.fromkeys(REASONS, 0),
    }


def test_each_event_counts_in_its_own_series(metrics: RecordMetrics) -> None:
    metrics.add_recorded(3)
    metrics.add_bytes(700)
    metrics.add_error()
    metrics.add_dropped("write", 2)
    metrics.add_dropped("redaction", 0)
    assert read(metrics) == {
        "fleethook_recorded_reviews_total": 3,
        "fleethook_record_bytes_total": 700,
        "fleethook_record_errors_total": 1,
        "overflow": 0,
        "redaction": 0,
        "write": 2,
        "error": 0,
    }


def test_overflows_are_published_once(metrics: RecordMetrics) -> None:
    metrics.overflowed = 2
    assert read(metrics)["overflow"] == 0
    metrics.publish()
    metrics.publish()
    assert read(metrics)["overflow"] == 2
    metrics.overflowed += 3
    metrics.publish()
    assert read(metrics)["overflow"] == 5
