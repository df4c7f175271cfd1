"""The cache of CRD tarballs on disk: ``<root>/cache/<key>``, with the tarball, its tree and its record.

The layout is that of Karmada's operator, so that both can share a volume. An entry is built beside the others and moved
into its place by one rename, under a lock, so it is complete or does not exist. Each use compares the bytes of the
tarball with the recorded digest.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec
import platformdirs

from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import LIMITS, ArchiveLimits
from fleethook.engines.crds.cache.cache_entry import (
    RECORD,
    TARBALL,
    CacheRecord,
    ListedEntry,
    State,
    check_entry,
    is_key,
    measure_size,
    translate_os_errors,
    write_record,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit

LOCK_SECONDS: Final = 30.0
"""Longest wait for the lock, which is held for a rename or for reading one entry, never during a download."""
_POLL_SECONDS: Final = 0.02
_LOCK: Final = ".lock"
_STAGING: Final = ".staging-"
_STAGING_SECONDS: Final = 2 * 3600
"""Age of a directory that a killed process left: a download takes an hour at most."""
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


def find_data_directory() -> Path:
    """Return the data directory of the user, whether or not it exists."""
    return Path(platformdirs.user_data_dir("fleethook"))


class CacheEntry(NamedTuple):
    """A verified entry."""

    key: str
    path: Path
    record: CacheRecord


class Origin(NamedTuple):
    """The origin of a tarball; its URLs are redacted."""

    url: str = ""
    final_url: str = ""
    etag: str = ""
    last_modified: str = ""


class Cache:
    """Entries by key, safe for several threads and processes."""

    def __init__(
        self,
        root: Path,
        *,
        limits: ArchiveLimits = LIMITS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        """Configure the cache; the first write creates its directories.

        Args:
            root: The data directory (``/var/lib/karmada``); the cache is ``cache`` below it.
            limits: Limits of a tarball.
            clock: Returns the time for records. Only `prune` compares these times.
            reading: Context that is entered while a tarball is in memory. It is never nested.
            lock_seconds: Seconds to wait for a lock of another process.
        """
        self.directory: Final = root / "cache"
        self._limits: Final = limits
        self._clock: Final = clock
        self._reading: Final = reading
        self._lock_seconds: Final = lock_seconds

    def bounded_by(self, reading: Callable[[], AbstractContextManager[None]]) -> Self:
        """Return the same cache with another ``reading`` (see `__init__`)."""
        return type(self)(
            self.directory.parent,
            limits=self._limits,
            clock=self._clock,
            reading=reading,
            lock_seconds=self._lock_seconds,
        )

    # --- Reading ------------------------------------------------------------------------------------------------------

    def path(self, key: str) -> Path:
        """Return the path of an entry, whether or not it exists; raises CRDsError USAGE for an invalid key."""
        if not is_key(key):
            raise CRDsError(Exit.USAGE, f"{key!r} is not a key of the cache: a key has 64 hexadecimal digits")
        return self.directory / key

    def keys(self) -> list[str]:
        """Return the keys of all entries in any state, sorted; raises CRDsError DISK."""
        with translate_os_errors("listing the cache"):
            try:
                return sorted(filter(is_key, (path.name for path in self.directory.iterdir())))
            except FileNotFoundError:
                return []

    def entry(self, key: str) -> CacheEntry | None:
        """Return the entry, or None if it is missing or its tarball does not have the recorded digest.

        Raises:
            CRDsError: DISK for a link, or for files that another user owns or everybody can write.
        """
        found = self.tarball(key)
        return None if found is None else found[0]

    def tarball(self, key: str) -> tuple[CacheEntry, bytes] | None:
        """Return the entry and the bytes of its tarball, or None as `entry` does; raises as `entry`.

        Use these verified bytes, not the files, which another process may change meanwhile.
        """
        path = self.path(key)
        with self._reading(), self._lock(fcntl.LOCK_SH):
            checked = check_entry(path, self._limits)
        if checked is None or checked.record is None or checked.problem:
            return None
        return CacheEntry(key, path, checked.record), checked.tarball

    def inspect(self, key: str) -> ListedEntry | None:
        """Check an entry in any state; returns None if it does not exist. Raises CRDsError USAGE for an invalid key."""
        path = self.path(key)
        try:
            changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
            with self._lock(fcntl.LOCK_SH):
                checked = check_entry(path, self._limits)
        except FileNotFoundError:
            return None
        except CRDsError as error:
            return ListedEntry(key, path, "refused", 0, changed, None, str(error))
        if checked is None:  # removed meanwhile
            return None
        record, size = checked.record, measure_size(path)
        if record is None:
            return ListedEntry(key, path, "bare", size, changed, None)
        state: State = "changed" if checked.problem else "ready"
        return ListedEntry(key, path, state, size, record.asked_at, record, checked.problem)

    def entries(self) -> list[ListedEntry]:
        """Return all entries in any state; raises CRDsError DISK."""
        return [listed for key in self.keys() if (listed := self.inspect(key)) is not None]

    # --- Writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Create an empty directory on the cache's file system; after the block it is removed if it is still there."""
        with translate_os_errors("preparing the cache"):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.directory.is_symlink():
                raise CRDsError(Exit.DISK, f"{self.directory} is a symbolic link: refused")
            self._sweep()
            staged = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.directory))
        try:
            yield staged
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def commit(self, key: str, staged: Path, origin: Origin, *, sha256: str = "", strict: bool = False) -> CacheEntry:
        """Verify and unpack the tarball in a staging directory, record it, and make it the entry.

        Args:
            key: Key of the entry.
            staged: A directory of `staging` that has ``crds.tar.gz`` and no other files.
            origin: Origin of the tarball.
            sha256: The expected digest; ``""`` for any.
            strict: Treat warnings as errors.

        Raises:
            CRDsError: INTEGRITY, ARCHIVE, LIMIT, LOCKED or DISK; the entry stays unchanged.
        """
        target = self.path(key)
        with self._reading():
            tarball = tarball_unpacking.load(staged / TARBALL, limits=self._limits)
            manifest = tarball_unpacking.unpack(tarball, staged, limits=self._limits, strict=strict)
            del tarball
        if sha256 and manifest.sha256 != sha256.strip().lower():
            raise CRDsError(Exit.INTEGRITY, f"the digest is {manifest.sha256}, not {sha256.strip().lower()}")
        now = self._clock()
        record = CacheRecord(
            url=origin.url, final_url=origin.final_url, sha256=manifest.sha256, size=manifest.size, etag=origin.etag,
            last_modified=origin.last_modified, fetched_at=now, asked_at=now, warnings=manifest.warnings,
        )  # fmt: skip
        with translate_os_errors(f"recording {key}"):
            (staged / TARBALL).chmod(0o640)
            write_record(staged / RECORD, record)
            _sync(staged)
        with self._lock(fcntl.LOCK_EX), translate_os_errors(f"replacing {key}"):
            former = self._move_away(target)
            staged.rename(target)
            _sync(self.directory)
        shutil.rmtree(former, ignore_errors=True)
        return CacheEntry(key, target, record)

    def import_file(
        self, key: str, file: Path, origin: Origin, *, sha256: str = "", strict: bool = False
    ) -> CacheEntry:
        """Make a regular file the entry, replacing a former one; the size is checked before the file is copied.

        Args:
            key: Key of the entry.
            file: Path of a tarball.
            origin: Origin of the tarball.
            sha256: The expected digest; ``""`` for any.
            strict: Treat warnings as errors.

        Raises:
            CRDsError: USAGE if the file cannot be read or is not regular; LIMIT; else as `commit`.
        """
        try:
            tarball = tarball_unpacking.load(file, limits=self._limits)
        except CRDsError as error:
            # The user named the file, so an unreadable file is an invalid argument.
            raise CRDsError(Exit.USAGE if error.exit is Exit.DISK else error.exit, str(error)) from None
        with self.staging() as staged:
            with translate_os_errors(f"copying {file}"):
                (staged / TARBALL).write_bytes(tarball)
            return self.commit(key, staged, origin, sha256=sha256, strict=strict)

    def renew(self, entry: CacheEntry, origin: Origin) -> CacheEntry:
        """Record that the origin confirmed the entry as current."""
        record = msgspec.structs.replace(
            entry.record, url=origin.url, final_url=origin.final_url, etag=origin.etag,
            last_modified=origin.last_modified, asked_at=self._clock(),
        )  # fmt: skip
        with self.staging() as staged, translate_os_errors(f"recording {entry.key}"):
            write_record(staged / RECORD, record)
            with self._lock(fcntl.LOCK_EX), suppress(FileNotFoundError):
                (staged / RECORD).rename(entry.path / RECORD)
        return entry._replace(record=record)

    def remove(self, key: str) -> bool:
        """Remove the entry, of any file type; returns False if it does not exist. Raises CRDsError LOCKED or DISK."""
        path = self.path(key)
        if not os.path.lexists(path):
            return False
        with self._lock(fcntl.LOCK_EX), translate_os_errors(f"removing {key}"):
            former = self._move_away(path)
        shutil.rmtree(former, ignore_errors=True)
        return True

    def prune(
        self, *, older_than: timedelta | None = None, max_bytes: int | None = None, keep: int = 0, dry_run: bool = False
    ) -> list[ListedEntry]:
        """Remove entries that are too old, or exceed the size with younger ones.

        Returns:
            The removed entries; with ``dry_run`` the entries to remove.

        Raises:
            CRDsError: LOCKED, DISK.
        """
        going = select_removable(
            self.entries(), now=self._clock(), older_than=older_than, max_bytes=max_bytes, keep=keep
        )
        return going if dry_run else [entry for entry in going if self.remove(entry.key)]

    # --- Files --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Hold the lock of the cache, shared by readers. A read-only or missing cache has no writers and needs none."""
        path = self.directory / _LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        except OSError as error:
            if kind == fcntl.LOCK_EX or error.errno not in (*_READ_ONLY, errno.ENOENT):
                raise CRDsError(Exit.DISK, f"{path}: {error.strerror}", transient=True) from error
            yield
            return
        try:
            _wait_for_lock(path, descriptor, kind, self._lock_seconds)
            yield
        finally:
            os.close(descriptor)

    def _move_away(self, path: Path) -> Path:
        """Move an entry of any file type into a new directory and return that; a missing entry is no error."""
        directory = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self.directory))
        with suppress(FileNotFoundError):
            path.rename(directory / path.name)
        return directory

    def _sweep(self) -> None:
        """Remove the directories of killed processes."""
        oldest = time.time() - _STAGING_SECONDS
        for path in self.directory.glob(f"{_STAGING}*"):
            with suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)


def _wait_for_lock(path: Path, descriptor: int, kind: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                text = f"another process holds {path}; waited {seconds:g} s"
                raise CRDsError(Exit.LOCKED, text, transient=True) from None
            time.sleep(_POLL_SECONDS)
        else:
            return


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def select_removable(
    entries: Sequence[ListedEntry],
    *,
    now: datetime,
    older_than: timedelta | None = None,
    max_bytes: int | None = None,
    keep: int = 0,
) -> list[ListedEntry]:
    """Return the entries to remove, oldest first: those that are too old, or exceed the size with younger ones.

    The ``keep`` youngest entries stay. An entry with a date in the future, after a clock was set back, counts as new.
    """
    youngest_first = sorted(entries, key=lambda entry: (min(entry.asked_at, now), entry.key), reverse=True)
    total = sum(entry.size for entry in youngest_first[:keep])
    going = []
    for entry in youngest_first[keep:]:
        old = older_than is not None and now - entry.asked_at > older_than
        if old or (max_bytes is not None and total + entry.size > max_bytes):
            going.append(entry)
        else:
            total += entry.size
    return going[::-1]
