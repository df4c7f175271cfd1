"""Bringing the right tarball into the cache: when the origin is asked, and what its answer changes (research 6.2)."""

import time
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from app.crds.cache.cache import Cache, Entry, Origin
from app.crds.cache.layout import LOCK_SECONDS
from app.crds.cache.metadata import TARBALL
from app.crds.download.download import Downloaded, Progress, Validators, download
from app.crds.download.redaction import redacted
from app.crds.failures import CRDsError, Exit
from app.crds.source import Policy, Source

Result = Literal["downloaded", "revalidated", "cached", "adopted", "stale"]

_SEEN_BEGIN: Final = 2
"""Of two answers since we came, the second one was asked for after we came; the first may have been on its way."""


class Fetched(NamedTuple):
    """An entry that may be used, and how it came to be there."""

    result: Result
    key: str
    path: Path
    sha256: str
    size: int
    url: str
    """Redacted, as is the next."""
    final_url: str
    etag: str
    attempts: int
    """Requests of this call; none for what needed no origin."""
    seconds: float
    waited: float
    """Seconds of them for who brought in the same entry."""
    warnings: tuple[str, ...]


class _Got(NamedTuple):
    result: Result
    entry: Entry
    attempts: int = 0
    warnings: tuple[str, ...] = ()
    waited: float = 0.0


class Downloader(Protocol):
    """What `download` is."""

    def __call__(
        self,
        source: Source,
        into: Path,
        *,
        validators: Validators | None,
        progress: Progress | None,
        env_proxies: bool,
    ) -> Downloaded:
        """Bring in the bytes, or learn that they are what is known already."""
        ...


class _Wish(NamedTuple):
    """What `fetch` was called with."""

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

    def fits(self, entry: Entry) -> bool:
        """Tell whether the entry is what the source is pinned to."""
        return self.source.sha256.strip().lower() in {"", entry.record.sha256}


def fetch(  # noqa: PLR0913 - one parameter for each wish that a command line can have
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
    """Return the source's entry as the policy wants it.

    Args:
        cache: Where entries are.
        source: Whose.
        policy: When to ask the origin: always, if there is no whole entry, or never.
        conditional: Whether an origin that is asked may say that nothing changed.
        stale_if_error: Whether the entry does when the origin is asked and fails in a way that passes.
        strict: Whether what is only odd in an archive is an error.
        normalize_dot: Whether an archive that is brought in may say ``./crds/…`` for ``crds/…``.
        env_proxies: Whether the environment's proxies count.
        progress: Told of a download's bytes.
        lock_seconds: How long to wait for who brings the same entry in, and then for who reads it.
        downloader: What asks the origin: `download`, perhaps with hosts it may not ask (`functools.partial`).

    Raises:
        CRDsError: What went wrong; a whole entry that was there still is.
    """
    started = time.monotonic()
    wish = _Wish(
        cache, source, policy, conditional, stale_if_error, strict, normalize_dot, env_proxies, progress, lock_seconds,
        downloader,
    )  # fmt: skip
    got = _at_once(wish) or _locked(wish)
    record = got.entry.record
    if strict and record.warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(record.warnings))
    return Fetched(
        got.result, got.entry.key, got.entry.path, record.sha256, record.size, redacted(source.url), record.final_url,
        record.etag, got.attempts, time.monotonic() - started, got.waited, (*got.warnings, *record.warnings),
    )  # fmt: skip


def _at_once(wish: _Wish) -> _Got | None:
    """Return an entry that needs neither the origin nor a lock."""
    if wish.policy is Policy.ALWAYS:
        return None
    entry = wish.cache.entry(wish.source.key)
    return _Got("cached", entry) if entry is not None and wish.fits(entry) else None


def _locked(wish: _Wish) -> _Got:
    cache, key = wish.cache, wish.source.key
    if wish.policy is Policy.NEVER and not cache.exists(key):
        raise _not_cached(wish, "")
    before = _asked(cache.entry(key)) if wish.policy is Policy.ALWAYS else 0
    came = time.monotonic()
    with cache.lock(key, wish.lock_seconds):
        waited = time.monotonic() - came
        return _alone(wish, before)._replace(waited=waited)


def _alone(wish: _Wish, before: int) -> _Got:
    """Return the entry while nobody else brings it in; ``before`` is how often it had been asked for when we came."""
    entry = wish.cache.entry(wish.source.key)
    if wish.policy is not Policy.ALWAYS:
        return _present(wish, entry)
    if entry is not None and wish.fits(entry) and entry.record.asked >= before + _SEEN_BEGIN:
        return _Got("revalidated", entry)
    return _ask(wish, entry)


def _asked(entry: Entry | None) -> int:
    return 0 if entry is None else entry.record.asked


def _present(wish: _Wish, entry: Entry | None) -> _Got:
    """Return what there is, and ask the origin only for what there is not, if the policy lets us."""
    got, problem = (None, "") if entry is None else (_Got("cached", entry), "")
    if got is None:
        got, problem = _adopted(wish)
    if got is not None and wish.fits(got.entry):
        return got
    if wish.policy is not Policy.NEVER:
        return _ask(wish, None)
    if got is None:
        raise _not_cached(wish, problem)
    text = f"{got.entry.path} is {got.entry.record.sha256}, and {wish.source.sha256} is wanted"
    raise CRDsError(Exit.INTEGRITY, text)


def _adopted(wish: _Wish) -> tuple[_Got | None, str]:
    """Return the tarball that lies there as an entry, or why it is none."""
    try:
        adopted = wish.cache.adopt(
            wish.source.key, url=redacted(wish.source.url), strict=wish.strict, normalize_dot=wish.normalize_dot,
            seconds=wish.lock_seconds,
        )  # fmt: skip
    except CRDsError as error:
        if error.exit in {Exit.LOCKED, Exit.DISK}:
            raise
        return None, f": the tarball there cannot be used: {error}"
    if adopted is None:
        return None, ""
    warnings = tuple(f"unpacked anew: {problem}" for problem in adopted.found)
    return _Got("adopted", adopted.entry, warnings=warnings), ""


def _not_cached(wish: _Wish, problem: str) -> CRDsError:
    where = f"{redacted(wish.source.url)} is not in the cache ({wish.cache.path(wish.source.key)})"
    return CRDsError(Exit.NOT_CACHED, f"{where}, and the origin is not to be asked{problem}")


def _ask(wish: _Wish, entry: Entry | None) -> _Got:
    """Ask the origin; ``entry`` is what it may say still holds."""
    try:
        return _download(wish, entry)
    except CRDsError as error:
        stale = _stale(wish, entry) if error.transient and error.exit in _ORIGIN_FAILED else None
        if stale is None:
            raise
        age = f"asked for last at {stale.record.asked_at:%Y-%m-%dT%H:%M:%SZ}"
        return _Got("stale", stale, warnings=(f"{error}; using the entry that was {age}",))


_ORIGIN_FAILED: Final = (Exit.NETWORK, Exit.HTTP, Exit.TLS)


def _stale(wish: _Wish, entry: Entry | None) -> Entry | None:
    if not wish.stale_if_error:
        return None
    if entry is None:
        got, _ = _adopted(wish)
        entry = None if got is None else got.entry
    return entry if entry is not None and wish.fits(entry) else None


def _download(wish: _Wish, entry: Entry | None) -> _Got:
    cache, source = wish.cache, wish.source
    with cache.staging() as staged:
        got = wish.downloader(
            source, staged.path / TARBALL, validators=_validators(wish, entry), progress=wish.progress,
            env_proxies=wish.env_proxies,
        )  # fmt: skip
        origin = _origin(source, got, entry)
        if entry is not None and (not got.changed or got.sha256 == entry.record.sha256):
            return _Got("downloaded" if got.changed else "revalidated", cache.renew(entry, origin), got.attempts)
        new = cache.commit(
            source.key, staged, origin._replace(asked=1 + _asked(entry)), sha256=source.sha256, strict=wish.strict,
            normalize_dot=wish.normalize_dot, seconds=wish.lock_seconds,
        )  # fmt: skip
    return _Got("downloaded", new, got.attempts)


def _validators(wish: _Wish, entry: Entry | None) -> Validators | None:
    if entry is None or not wish.conditional or not wish.fits(entry):
        return None
    record = entry.record
    return Validators(record.etag, record.last_modified) if record.etag or record.last_modified else None


def _origin(source: Source, got: Downloaded, entry: Entry | None) -> Origin:
    etag, last_modified = got.validators
    if entry is not None and not got.changed:
        # An answer that nothing changed need not say again what it is that did not (RFC 9110, 15.4.5).
        etag, last_modified = etag or entry.record.etag, last_modified or entry.record.last_modified
    return Origin(redacted(source.url), got.final_url, etag, last_modified)
