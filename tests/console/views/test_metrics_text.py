import math

import pytest

from app.api.metrics import Metrics, certificate_gauge
from app.console.views.metrics_text import MAX_LABEL_CHARACTERS, MAX_SERIES, REVIEWS, MetricsError, read_sample


def test_the_metrics_of_a_server_are_read() -> None:
    metrics = Metrics()
    metrics.registry.register(certificate_gauge(lambda: 1_800_000_000.0))
    metrics.count_review("/a", "CREATE", "allowed", seconds=0.002, request_id="r")
    metrics.count_review("/a", "CREATE", "allowed", seconds=99.0, request_id="r")
    metrics.count_review("/b", "UPDATE", "denied", seconds=0.002, request_id="r")
    text = metrics.exposition("text/plain; version=0.0.4")[0].decode()
    sample = read_sample(text, time=5.0)
    assert sample.time == 5.0
    assert sample.reviews == {("/a", "CREATE", "allowed"): 2.0, ("/b", "UPDATE", "denied"): 1.0}
    assert sample.buckets["/a", 0.0025] == 1.0
    assert sample.buckets["/a", 30.0] == 1.0
    assert sample.buckets["/a", math.inf] == 2.0
    assert sample.certificate_end == 1_800_000_000.0


def test_of_several_certificates_the_first_end_counts() -> None:
    name = "fleethook_certificate_expiry_timestamp_seconds"
    assert read_sample(f'{name}{{pid="1"}} 20\n{name}{{pid="2"}} 10\n', time=0).certificate_end == 10


def test_long_labels_are_cut() -> None:
    line = f'{REVIEWS}{{route="/a",operation="CREATE",outcome="{"<" * 1000}"}} 1\n'
    assert list(read_sample(line, time=0).reviews) == [("/a", "CREATE", "<" * MAX_LABEL_CHARACTERS)]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300"])
def test_numbers_that_no_counter_has_are_left_out(value: str) -> None:
    assert read_sample(f'{REVIEWS}{{route="/a",operation="C",outcome="allowed"}} {value}\n', time=0).reviews == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no metrics of fleethook"),
        ("<html>Sign in</html>", "no metrics of fleethook"),
        (f"{REVIEWS}{{secret", "not in the Prometheus text format"),
        (f"{REVIEWS} x", "not in the Prometheus text format"),
        (f"{REVIEWS} 1", "not in the Prometheus text format"),
        (f"{REVIEWS} 1\n" * (MAX_SERIES + 1), "more than 5000 series"),
    ],
)
def test_another_text_is_refused_without_being_quoted(text: str, message: str) -> None:
    with pytest.raises(MetricsError, match=message) as caught:
        read_sample(text, time=0)
    assert "secret" not in str(caught.value)
