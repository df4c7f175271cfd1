"""Metrics of fetches of CRD tarballs, and of the cache."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.fetching import bring
from tests.engines.crds.origin import serving, tarball
from tests.engines.crds.tarballs import release


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> FetchMetrics:
    return FetchMetrics(registry)


def test_only_downloads_count_their_bytes(registry: CollectorRegistry, metrics: FetchMetrics, tmp_path: Path) -> None:
    cache, body = Cache(tmp_path), release()
    with serving(tarball(body)) as origin:
        source = TarballSource(origin.url, ca_pem=origin.ca_pem)
        for _ in range(3):
            metrics.fetched(bring(cache, source))
    value = registry.get_sample_value
    assert value("fleethook_crds_fetches_total", {"result": "downloaded"}) == 1
    assert value("fleethook_crds_fetches_total", {"result": "cached"}) == 2
    assert value("fleethook_crds_downloaded_bytes_total") == len(body)
    assert value("fleethook_crds_fetch_duration_seconds_count", {"result": "cached"}) == 2


def test_failures_count_by_kind_of_error(registry: CollectorRegistry, metrics: FetchMetrics) -> None:
    metrics.failed(CRDsError(Exit.NETWORK, "no"), 0.5)
    metrics.failed(CRDsError(Exit.INTEGRITY, "no"), 0.5)
    metrics.failed(CRDsError(Exit.NETWORK, "no"), 1.5)
    value = registry.get_sample_value
    assert value("fleethook_crds_fetches_total", {"result": "network"}) == 2
    assert value("fleethook_crds_fetches_total", {"result": "integrity"}) == 1
    assert value("fleethook_crds_fetch_duration_seconds_sum", {"result": "network"}) == 2.0


def test_the_cache_is_measured_on_disk(registry: CollectorRegistry, metrics: FetchMetrics, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    metrics.measure(cache)
    assert registry.get_sample_value("fleethook_crds_cache_entries") == 0
    with serving(tarball(release())) as origin:
        for path in ("", "?again"):
            bring(cache, TarballSource(origin.url + path, ca_pem=origin.ca_pem))
    metrics.measure(cache)
    assert registry.get_sample_value("fleethook_crds_cache_entries") == 2
    size = registry.get_sample_value("fleethook_crds_cache_bytes")
    assert size is not None
    assert size > 2 * len(release())
