"""Fetches a tarball into the cache: the download policy decides between the entry and a request to the origin.

Upstream: ``runCrdsDownload`` in operator/pkg/tasks/init/crd.go (v1.17.1), which removes the entry before a download.
"""

import time
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.cache_layout import LOCK_SECONDS
from fleethook.engines.crds.cache.tarball_cache import Cache, Entry, Origin
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.download import Downloaded, Progress, Validators, download
from fleethook.engines.crds.tarball_source import Policy, Source, redact

Result = Literal["downloaded", "revalidated", "cached", "adopted", "stale", "imported"]

_SEEN_BEGIN: Final = 2
"""The first answer during this call's wait may belong to a request from before the call; the second one cannot."""


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
    waited: float
    """Seconds of the fetch in which it waited for another process to download the same entry."""
    warnings: tuple[str, ...]


class _FetchedEntry(NamedTuple):
    result: Result
    entry: Entry
    attempts: int = 0
    warnings: tuple[str, ...] = ()
    waited: float = 0.0


class Downloader(Protocol):
    """The interface of `download`."""

    def __call__(
        self,
        source: Source,
        into: Path,
        *,
        validators: Validators | None,
        progress: Progress | None,
        env_proxies: bool,
    ) -> Downloaded:
        """Download the tarball, unless the validators show that it has not changed."""
        ...


class _FetchRequest(NamedTuple):
    """The arguments of `fetch`."""

    cache: Cache
    source: Source
    policy: Policy
    conditional: bool
    stale_if_error: bool
    strict: bool
    normalize_dot: bool
    env_proxies: bool
    progress: Progress | None
    lock_seconds: float
    downloader: Downloader

    def matches_pin(self, entry: Entry) -> bool:
        """Return whether the entry has the digest that the source is pinned to."""
        return self.source.sha256.strip().lower() in {"", entry.record.sha256}


def fetch(  # noqa: PLR0913 - one parameter for each option of the commands
    cache: Cache,
    source: Source,
    policy: Policy,
    *,
    conditional: bool = True,
    stale_if_error: bool = False,
    strict: bool = False,
    normalize_dot: bool = False,
    env_proxies: bool = True,
    progress: Progress | None = None,
    lock_seconds: float = LOCK_SECONDS,
    downloader: Downloader = download,
) -> Fetched:
    """Return the cache entry of a source, after a download if the policy requires one.

    Args:
        cache: The cache of tarballs.
        source: The origin of the tarball.
        policy: When to send a request to the origin: always, if there is no usable entry, or never.
        conditional: Send the entry's validators, so that the origin can answer 304.
        stale_if_error: Fall back to the entry if a request to the origin fails with a transient error.
        strict: Treat warnings about the archive as errors.
        normalize_dot: Accept ``./crds/…`` for ``crds/…`` in a new archive.
        env_proxies: Use the proxies of the environment.
        progress: Called with the number of downloaded bytes.
        lock_seconds: Seconds to wait for another process that downloads the entry, and again for its readers.
        downloader: Sends the request: `download`, perhaps restricted to some hosts (`functools.partial`).

    Raises:
        CRDsError: The fetch failed; a usable entry stays in the cache.
    """
    started = time.monotonic()
    request = _FetchRequest(
        cache, source, policy, conditional, stale_if_error, strict, normalize_dot, env_proxies, progress, lock_seconds,
        downloader,
    )  # fmt: skip
    got = _find_usable(request) or _fetch_under_lock(request)
    record = got.entry.record
    if strict and record.warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(record.warnings))
    return Fetched(
        got.result, got.entry.key, got.entry.path, record.sha256, record.size, redact(source.url), record.final_url,
        record.etag, got.attempts, time.monotonic() - started, got.waited, (*got.warnings, *record.warnings),
    )  # fmt: skip


def import_file(cache: Cache, source: Source, file: Path, *, strict: bool, normalize_dot: bool) -> Fetched:
    """Make a local tarball the cache entry of a source, as if it were downloaded: for sites without a network.

    Raises:
        CRDsError: USAGE if the file cannot be read; INTEGRITY, ARCHIVE, LIMIT or DISK; the entry stays unchanged.
    """
    started = time.monotonic()
    origin = Origin(url=redact(source.url), asked=0)
    entry = cache.import_file(
        source.key, file, origin, sha256=source.sha256, strict=strict, normalize_dot=normalize_dot
    )
    record, seconds = entry.record, time.monotonic() - started
    return Fetched(
        "imported", entry.key, entry.path, record.sha256, record.size, record.url, "", "", 0, seconds, 0.0,
        record.warnings,
    )  # fmt: skip


def _find_usable(request: _FetchRequest) -> _FetchedEntry | None:
    """Return the entry if the policy allows it without a request, else None. Takes no lock."""
    if request.policy is Policy.ALWAYS:
        return None
    entry = request.cache.entry(request.source.key)
    return _FetchedEntry("cached", entry) if entry is not None and request.matches_pin(entry) else None


def _fetch_under_lock(request: _FetchRequest) -> _FetchedEntry:
    cache, key = request.cache, request.source.key
    if request.policy is Policy.NEVER and not cache.exists(key):
        raise _make_not_cached_error(request, "")
    before = _count_answers(cache.entry(key)) if request.policy is Policy.ALWAYS else 0
    came = time.monotonic()
    with cache.lock(key, request.lock_seconds):
        waited = time.monotonic() - came
        return _fetch_while_locked(request, before)._replace(waited=waited)


def _fetch_while_locked(request: _FetchRequest, before: int) -> _FetchedEntry:
    """Fetch while holding the entry's lock; ``before`` is the number of the origin's answers before the wait."""
    entry = request.cache.entry(request.source.key)
    if request.policy is not Policy.ALWAYS:
        return _use_present(request, entry)
    if entry is not None and request.matches_pin(entry) and entry.record.asked >= before + _SEEN_BEGIN:
        return _FetchedEntry("revalidated", entry)
    return _ask_origin(request, entry)


def _count_answers(entry: Entry | None) -> int:
    return 0 if entry is None else entry.record.asked


def _use_present(request: _FetchRequest, entry: Entry | None) -> _FetchedEntry:
    """Return the entry or adopt a tarball in its place; else ask the origin, if the policy allows that."""
    got, problem = (None, "") if entry is None else (_FetchedEntry("cached", entry), "")
    if got is None:
        got, problem = _adopt(request)
    if got is not None and request.matches_pin(got.entry):
        return got
    if request.policy is not Policy.NEVER:
        return _ask_origin(request, None)
    if got is None:
        raise _make_not_cached_error(request, problem)
    text = f"{got.entry.path} has digest {got.entry.record.sha256}, and {request.source.sha256} is expected"
    raise CRDsError(Exit.INTEGRITY, text)


def _adopt(request: _FetchRequest) -> tuple[_FetchedEntry | None, str]:
    """Make an entry of a tarball in its place; returns None and the reason if that is impossible."""
    try:
        adopted = request.cache.adopt(
            request.source.key, url=redact(request.source.url), strict=request.strict,
            normalize_dot=request.normalize_dot, seconds=request.lock_seconds,
        )  # fmt: skip
    except CRDsError as error:
        if error.exit in {Exit.LOCKED, Exit.DISK}:
            raise
        return None, f": the tarball in the cache cannot be used: {error}"
    if adopted is None:
        return None, ""
    warnings = tuple(f"unpacked again: {problem}" for problem in adopted.found)
    return _FetchedEntry("adopted", adopted.entry, warnings=warnings), ""


def _make_not_cached_error(request: _FetchRequest, problem: str) -> CRDsError:
    where = f"{redact(request.source.url)} is not in the cache ({request.cache.path(request.source.key)})"
    return CRDsError(Exit.NOT_CACHED, f"{where}, and the policy Never allows no download{problem}")


def _ask_origin(request: _FetchRequest, entry: Entry | None) -> _FetchedEntry:
    """Send a request to the origin; ``entry`` provides the validators and the fallback."""
    try:
        return _download(request, entry)
    except CRDsError as error:
        stale = _find_stale(request, entry) if error.transient and error.exit in _ORIGIN_FAILED else None
        if stale is None:
            raise
        age = f"last confirmed at {stale.record.asked_at:%Y-%m-%dT%H:%M:%SZ}"
        return _FetchedEntry("stale", stale, warnings=(f"{error}; using the entry {age}",))


_ORIGIN_FAILED: Final = (Exit.NETWORK, Exit.HTTP, Exit.TLS)


def _find_stale(request: _FetchRequest, entry: Entry | None) -> Entry | None:
    if not request.stale_if_error:
        return None
    if entry is None:
        got, _ = _adopt(request)
        entry = None if got is None else got.entry
    return entry if entry is not None and request.matches_pin(entry) else None


def _download(request: _FetchRequest, entry: Entry | None) -> _FetchedEntry:
    cache, source = request.cache, request.source
    with cache.staging() as staged:
        got = request.downloader(
            source, staged.path / TARBALL, validators=_choose_validators(request, entry), progress=request.progress,
            env_proxies=request.env_proxies,
        )  # fmt: skip
        origin = _describe_origin(source, got, entry)
        if entry is not None and (not got.changed or got.sha256 == entry.record.sha256):
            return _FetchedEntry(
                "downloaded" if got.changed else "revalidated", cache.renew(entry, origin), got.attempts
            )
        new = cache.commit(
            source.key, staged, origin._replace(asked=1 + _count_answers(entry)), sha256=source.sha256,
            strict=request.strict, normalize_dot=request.normalize_dot, seconds=request.lock_seconds,
        )  # fmt: skip
    return _FetchedEntry("downloaded", new, got.attempts)


def _choose_validators(request: _FetchRequest, entry: Entry | None) -> Validators | None:
    if entry is None or not request.conditional or not request.matches_pin(entry):
        return None
    record = entry.record
    return Validators(record.etag, record.last_modified) if record.etag or record.last_modified else None


def _describe_origin(source: Source, got: Downloaded, entry: Entry | None) -> Origin:
    etag, last_modified = got.validators
    if entry is not None and not got.changed:
        # A 304 may omit the validators of the unchanged body (RFC 9110, 15.4.5).
        etag, last_modified = etag or entry.record.etag, last_modified or entry.record.last_modified
    return Origin(redact(source.url), got.final_url, etag, last_modified)
