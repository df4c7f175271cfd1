"""Fetches a tarball into the cache: the download policy decides between the entry and a request to the origin.

Upstream: ``runCrdsDownload`` in operator/pkg/tasks/init/crd.go (v1.17.1), which removes the entry before a download.
"""

import time
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache, CacheEntry, Origin
from fleethook.engines.crds.download.download_and_mirrors import Downloaded, Downloader, Progress, download
from fleethook.engines.crds.download.requests_and_connections import Validators
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.model.crd_tarball import Policy

Result = Literal["downloaded", "revalidated", "cached", "stale", "imported"]


class Fetched(NamedTuple):
    """A usable entry, and the way it got into the cache."""

    result: Result
    key: str
    path: Path
    sha256: str
    size: int
    url: str
    """The URL, redacted like ``final_url``."""
    final_url: str
    etag: str
    attempts: int
    """Number of requests that this call sent; 0 if it used the cache only."""
    seconds: float
    warnings: tuple[str, ...]


class _FetchedEntry(NamedTuple):
    result: Result
    entry: CacheEntry
    attempts: int = 0
    warnings: tuple[str, ...] = ()


class _FetchRequest(NamedTuple):
    """The arguments of `fetch`."""

    cache: Cache
    source: TarballSource
    stale_if_error: bool
    strict: bool
    env_proxies: bool
    progress: Progress | None
    downloader: Downloader

    def matches_pin(self, entry: CacheEntry) -> bool:
        """Return whether the entry has the digest that the source is pinned to."""
        return self.source.sha256.strip().lower() in {"", entry.record.sha256}


def fetch(
    cache: Cache,
    source: TarballSource,
    policy: Policy,
    *,
    stale_if_error: bool = False,
    strict: bool = False,
    env_proxies: bool = True,
    progress: Progress | None = None,
    downloader: Downloader = download,
) -> Fetched:
    """Return the cache entry of a source, after a download if the policy requires one.

    Args:
        cache: The cache of tarballs.
        source: The origin of the tarball.
        policy: When to send a request to the origin: always, if there is no usable entry, or never.
        stale_if_error: Fall back to the entry if a request to the origin fails with a transient error.
        strict: Treat warnings about the archive as errors.
        env_proxies: Use the proxies of the environment.
        progress: Called with the number of downloaded bytes.
        downloader: Sends the request: `download`, perhaps restricted to some hosts (`functools.partial`).

    Raises:
        CRDsError: The fetch failed; a usable entry stays in the cache.
    """
    started = time.monotonic()
    request = _FetchRequest(cache, source, stale_if_error, strict, env_proxies, progress, downloader)
    got = _use_entry(request, policy)
    record = got.entry.record
    if strict and record.warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(record.warnings))
    return Fetched(
        got.result, got.entry.key, got.entry.path, record.sha256, record.size, redact(source.url), record.final_url,
        record.etag, got.attempts, time.monotonic() - started, (*got.warnings, *record.warnings),
    )  # fmt: skip


def import_file(cache: Cache, source: TarballSource, file: Path, *, strict: bool) -> Fetched:
    """Make a local tarball the cache entry of a source, as if it were downloaded: for sites without a network.

    Raises:
        CRDsError: USAGE if the file cannot be read; INTEGRITY, ARCHIVE, LIMIT or DISK; the entry stays unchanged.
    """
    started = time.monotonic()
    origin = Origin(url=redact(source.url))
    entry = cache.import_file(source.key, file, origin, sha256=source.sha256, strict=strict)
    record, seconds = entry.record, time.monotonic() - started
    return Fetched(
        "imported", entry.key, entry.path, record.sha256, record.size, record.url, "", "", 0, seconds, record.warnings
    )


def _use_entry(request: _FetchRequest, policy: Policy) -> _FetchedEntry:
    """Return the entry if the policy allows it without a request, else ask the origin."""
    entry = request.cache.entry(request.source.key)
    if policy is Policy.ALWAYS:
        return _ask_origin(request, entry)
    if entry is not None and request.matches_pin(entry):
        return _FetchedEntry("cached", entry)
    if policy is not Policy.NEVER:
        return _ask_origin(request, None)
    if entry is None:
        where = f"{redact(request.source.url)} is not in the cache ({request.cache.path(request.source.key)})"
        raise CRDsError(Exit.NOT_CACHED, f"{where}, and the policy Never allows no download")
    text = f"{entry.path} has digest {entry.record.sha256}, and {request.source.sha256} is expected"
    raise CRDsError(Exit.INTEGRITY, text)


def _ask_origin(request: _FetchRequest, entry: CacheEntry | None) -> _FetchedEntry:
    """Send a request to the origin; ``entry`` provides the validators and the fallback."""
    try:
        return _download(request, entry)
    except CRDsError as error:
        failed = request.stale_if_error and error.transient and error.exit in _ORIGIN_FAILED
        if not failed or entry is None or not request.matches_pin(entry):
            raise
        age = f"last confirmed at {entry.record.asked_at:%Y-%m-%dT%H:%M:%SZ}"
        return _FetchedEntry("stale", entry, warnings=(f"{error}; using the entry {age}",))


_ORIGIN_FAILED: Final = (Exit.NETWORK, Exit.HTTP, Exit.TLS)


def _download(request: _FetchRequest, entry: CacheEntry | None) -> _FetchedEntry:
    cache, source = request.cache, request.source
    with cache.staging() as staged:
        got = request.downloader(
            source, staged / TARBALL, validators=_choose_validators(request, entry), progress=request.progress,
            env_proxies=request.env_proxies,
        )  # fmt: skip
        origin = _describe_origin(source, got, entry)
        if entry is not None and (not got.changed or got.sha256 == entry.record.sha256):
            result: Result = "downloaded" if got.changed else "revalidated"
            return _FetchedEntry(result, cache.renew(entry, origin), got.attempts)
        new = cache.commit(source.key, staged, origin, sha256=source.sha256, strict=request.strict)
    return _FetchedEntry("downloaded", new, got.attempts)


def _choose_validators(request: _FetchRequest, entry: CacheEntry | None) -> Validators | None:
    if entry is None or not request.matches_pin(entry):
        return None
    record = entry.record
    return Validators(record.etag, record.last_modified) if record.etag or record.last_modified else None


def _describe_origin(source: TarballSource, got: Downloaded, entry: CacheEntry | None) -> Origin:
    etag, last_modified = got.validators
    if entry is not None and not got.changed:
        # A 304 may omit the validators of the unchanged body (RFC 9110, 15.4.5).
        etag, last_modified = etag or entry.record.etag, last_modified or entry.record.last_modified
    return Origin(redact(source.url), got.final_url, etag, last_modified)
