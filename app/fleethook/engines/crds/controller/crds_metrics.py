"""The metrics of fetches of CRD tarballs, and of the cache."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fleethook.engines.crds.cache.cache_entry import measure_size
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.cache_or_download import Fetched
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError

_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class FetchMetrics:
    """Metrics of fetches and of the cache."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics."""
        self._fetches: Final = Counter(
            "fleethook_crds_fetches",
            "Fetches of CRD tarballs, by result: downloaded, revalidated, cached, stale, or kind of error.",
            ["result"],
            registry=registry,
        )
        self._bytes: Final = Counter(
            "fleethook_crds_downloaded_bytes", "Bytes of downloaded tarballs.", registry=registry
        )
        self._seconds: Final = Histogram(
            "fleethook_crds_fetch_duration_seconds",
            "Duration of a fetch, including the wait for the lock.",
            ["result"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._entries: Final = Gauge("fleethook_crds_cache_entries", "Number of cache entries.", registry=registry)
        self._disk: Final = Gauge("fleethook_crds_cache_bytes", "Bytes of cache entries on disk.", registry=registry)

    def fetched(self, fetched: Fetched) -> None:
        """Count a successful fetch."""
        self._fetches.labels(fetched.result).inc()
        self._seconds.labels(fetched.result).observe(fetched.seconds)
        if fetched.result == "downloaded":
            self._bytes.inc(fetched.size)

    def failed(self, error: CRDsError, seconds: float) -> None:
        """Count a failed fetch."""
        result = error.exit.name.lower()
        self._fetches.labels(result).inc()
        self._seconds.labels(result).observe(seconds)

    def measure(self, cache: Cache) -> None:
        """Measure the number and size of the cache's entries; raises CRDsError DISK."""
        sizes = list(map(measure_size, map(cache.path, cache.keys())))
        self._entries.set(len(sizes))
        self._disk.set(sum(sizes))
