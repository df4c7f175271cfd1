import asyncio
import math
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from fleethook.console.metrics_and_lease import (
    KEPT_SECONDS,
    REVIEWS,
    LeaseState,
    LeaseWatch,
    MetricsError,
    MetricsSampler,
    MetricsTarget,
    check_target,
    read_sample,
)
from fleethook.server.metrics import Metrics, certificate_gauge
from tests.console.metrics_server import MetricsServer, serving_metrics


def test_the_metrics_of_a_server_are_read() -> None:
    metrics = Metrics()
    metrics.registry.register(certificate_gauge(lambda: 1_800_000_000.0))
    metrics.count_review("/a", "CREATE", "allowed", seconds=0.002)
    metrics.count_review("/a", "CREATE", "allowed", seconds=99.0)
    metrics.count_review("/b", "UPDATE", "denied", seconds=0.002)
    text = metrics.exposition("text/plain; version=0.0.4")[0].decode()
    sample = read_sample(text, time=5.0)
    assert sample.time == 5.0
    assert sample.reviews == {("/a", "CREATE", "allowed"): 2.0, ("/b", "UPDATE", "denied"): 1.0}
    assert sample.buckets["/a", 0.0025] == 1.0
    assert sample.buckets["/a", 30.0] == 1.0
    assert sample.buckets["/a", math.inf] == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no metrics of fleethook"),
        ("<html>Sign in</html>", "no metrics of fleethook"),
        (f"{REVIEWS}{{secret", "not in the Prometheus text format"),
        (f"{REVIEWS} x", "not in the Prometheus text format"),
        (f"{REVIEWS} 1", "not in the Prometheus text format"),
    ],
)
def test_another_text_is_refused_without_being_quoted(text: str, message: str) -> None:
    with pytest.raises(MetricsError, match=message) as caught:
        read_sample(text, time=0)
    assert "secret" not in str(caught.value)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 5
        return self.now


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    with serving_metrics() as made:
        yield made


async def test_two_samples_have_the_reviews_between_them(server: MetricsServer) -> None:
    sampler = MetricsSampler(MetricsTarget(server.url), clock=Clock())
    server.count(times=5)
    await sampler.sample()
    assert sampler.find().increases == []
    server.count("denied", times=2)
    await sampler.sample()
    state = sampler.find()
    (increase,) = state.increases
    assert (increase.start, increase.end) == (1005, 1010)
    assert increase.verdicts == {"allowed": 0, "denied": 2}
    assert (state.sampled_at, state.problem) == (1010, "")


async def test_a_failure_is_named_and_keeps_the_samples(server: MetricsServer) -> None:
    sampler = MetricsSampler(MetricsTarget(server.url), clock=Clock())
    server.count()
    await sampler.sample()
    server.status = 503
    await sampler.sample()
    state = sampler.find()
    assert (state.sampled_at, state.problem) == (1005, "the server answers 503 instead of 200")
    server.status = 200
    server.count()
    await sampler.sample()
    (increase,) = sampler.find().increases
    assert increase.verdicts == {"allowed": 1}
    assert sampler.find().problem == ""


async def test_an_unreachable_server_is_a_problem() -> None:
    with serving_metrics() as made:
        sampler = MetricsSampler(MetricsTarget(made.url))
    await sampler.sample()
    assert sampler.find().sampled_at is None
    assert "localhost" in sampler.find().problem


async def test_a_large_answer_is_refused(server: MetricsServer) -> None:
    sampler = MetricsSampler(MetricsTarget(server.url), max_bytes=100)
    await sampler.sample()
    assert sampler.find().problem == "the response is larger than 100 bytes"


async def test_a_slow_answer_is_a_problem(server: MetricsServer) -> None:
    sampler = MetricsSampler(MetricsTarget(server.url), timeout=1e-6)
    await sampler.sample()
    assert sampler.find().problem == "no complete answer within 0 s"


async def test_a_redirect_is_not_followed(server: MetricsServer, tmp_path: Path) -> None:
    with serving_metrics() as other:
        server.status, server.location = 302, other.url
        sampler = MetricsSampler(MetricsTarget(server.url))
        await sampler.sample()
        assert other.headers == []
    assert sampler.find().problem == "the server answers 302 instead of 200"


async def test_the_authority_of_the_server_is_verified(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, names=["localhost"], now=datetime.now(UTC))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    with serving_metrics(context) as server:
        server.count()
        trusting = MetricsSampler(MetricsTarget(server.url, tmp_path / "ca.crt"))
        await trusting.sample()
        assert trusting.find().problem == ""
        doubting = MetricsSampler(MetricsTarget(server.url))
        await doubting.sample()
        assert "certificate" in doubting.find().problem


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://h:9443/metrics", ""),
        ("http://h/metrics", ""),
        ("ftp://h/metrics", "the form https://"),
        ("h:9443", "the form https://"),
        ("https:///metrics", "the form https://"),
        ("https://h:0/", "the form https://"),
        ("https://h:x/", "no valid URL"),
        ("https://user:secret@h/metrics", "no credentials"),
        ("https://h/metrics?token=secret", "no credentials"),
    ],
)
def test_only_urls_without_secrets_are_taken(url: str, reason: str) -> None:
    found = check_target(url)
    assert reason in found if reason else found == ""
    assert "secret" not in found


LEASE = {"spec": {"holderIdentity": "a"}}


class Apiserver:
    """Answers with a Lease, or fails."""

    def __init__(self) -> None:
        self.answer: Any = LEASE
        self.asked: list[tuple[str, str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.now = 0.0

    async def get(self, method: str, path: str, *, timeout: float) -> Any:  # noqa: ASYNC109
        assert timeout > 0
        self.asked.append((method, path))
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def watch(self) -> LeaseWatch:
        return LeaseWatch(self.get, "/{}/leases/fleethook".format, namespace="n", clock=lambda: self.now)


async def test_an_answer_is_used_for_some_seconds() -> None:
    apiserver = Apiserver()
    watch = apiserver.watch()
    assert await watch.find() == LeaseState(LEASE, is_read=True)
    apiserver.now = KEPT_SECONDS - 1
    await watch.find()
    assert apiserver.asked == [("GET", "/n/leases/fleethook")]
    apiserver.now = KEPT_SECONDS
    apiserver.answer = {"spec": {}}
    assert (await watch.find()).lease == {"spec": {}}
    assert len(apiserver.asked) == 2


async def test_a_failure_is_named_and_keeps_the_last_answer() -> None:
    apiserver = Apiserver()
    watch = apiserver.watch()
    await watch.find()
    for number, failure in enumerate((APIError(403, "Forbidden", "cannot get"), UnreachableError("refused")), 1):
        apiserver.now = number * KEPT_SECONDS
        apiserver.answer = failure
        state = await watch.find()
        assert (state.lease, state.is_read) == (LEASE, True)
        assert state.problem in ("cannot get", "refused")
    apiserver.now *= 2
    apiserver.answer = LEASE
    assert (await watch.find()).problem == ""


async def test_a_page_does_not_wait_for_a_slow_apiserver() -> None:
    apiserver = Apiserver()
    apiserver.open.clear()
    watch = apiserver.watch()
    assert await watch.find() == LeaseState()
    apiserver.now = 2 * KEPT_SECONDS
    await watch.find()
    assert len(apiserver.asked) == 1
    apiserver.open.set()
    assert watch._reading is not None
    await watch._reading
    assert (await watch.find()).is_read
