"""The cache of CRD tarballs: an entry is complete, or it does not exist.

``<root>/cache/<key>/`` has ``crds.tar.gz`` and ``crds/…``, in the layout of Karmada's operator, and ``.meta.json``,
which the operator does not read. An entry is built in ``.staging`` and moved into place atomically.
Upstream: operator/pkg/tasks/init/crd.go (v1.17.1), ``getCrdsDir``.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import LIMITS, ArchiveLimits
from fleethook.engines.crds.cache.cache_entry import (
    TARBALL,
    TREE,
    Listed,
    Record,
    State,
    check_entry,
    find_tree_problems,
    has_tarball,
    measure_size,
    read_record,
    read_tarball,
    replace_record,
    select_removable,
    translate_os_errors,
    write_record,
)
from fleethook.engines.crds.cache.cache_layout import LOCK_SECONDS, Layout, Staged
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import EXISTING, FILE_MODE, open_at, write_new


class Entry(NamedTuple):
    """A verified entry."""

    key: str
    path: Path
    record: Record


class Adopted(NamedTuple):
    """An entry that was made from an existing tarball."""

    entry: Entry
    found: tuple[str, ...]
    """The problems of the tree that was next to the tarball."""


class Origin(NamedTuple):
    """The origin of a tarball; its URLs are redacted."""

    url: str = ""
    final_url: str = ""
    etag: str = ""
    last_modified: str = ""
    asked: int = 1
    """Number of answers from the origin; 0 for a tarball that was not downloaded."""


def _read_clock() -> datetime:
    return datetime.now(UTC)


class Cache(Layout):
    """Entries by key, safe for several threads and processes."""

    def __init__(
        self,
        root: Path,
        *,
        limits: ArchiveLimits = LIMITS,
        clock: Callable[[], datetime] = _read_clock,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Configure the cache; the first write creates its directories.

        Args:
            root: The data directory (``/var/lib/karmada``); the cache is ``cache`` below it.
            limits: Limits of a tarball.
            clock: Returns the time for records. Only `prune` compares these times.
            reading: Context that is entered while a tarball is in memory. It is never nested.
        """
        super().__init__(root)
        self._reading: Final = reading
        self._limits: Final = limits
        self._clock: Final = clock

    def bounded_by(self, reading: Callable[[], AbstractContextManager[None]]) -> Self:
        """Return the same cache with another ``reading`` (see `__init__`)."""
        return type(self)(self.directory.parent, limits=self._limits, clock=self._clock, reading=reading)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def entry(self, key: str) -> Entry | None:
        """Return the entry, or None if it is missing or damaged.

        Reads all of it: the tarball must have the recorded digest, and the tree must have the tarball's files.

        Raises:
            CRDsError: DISK for a link, or for files that another user owns.
        """
        found = self.tarball(key)
        return None if found is None else found[0]

    def tarball(self, key: str) -> tuple[Entry, bytes] | None:
        """Return the entry and the bytes of its tarball, or None as `entry` does; raises as `entry`.

        Use these verified bytes, not the files, which another process may change meanwhile.
        """
        with self.open_entry_directory(key) as directory:
            if directory is None:
                return None
            with self._reading():
                record, tarball, problems = check_entry(directory, self._limits)
        return None if record is None or problems else (Entry(key, self.path(key), record), tarball)

    def verify(self, key: str) -> list[str]:
        """Read the entry completely and return its problems; raises CRDsError NOT_CACHED if it does not exist."""
        with self.open_entry_directory(key) as directory:
            if directory is None:
                raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {self.directory}")
            return list(check_entry(directory, self._limits).problems)

    def entries(self) -> list[Listed]:
        """Return all entries in any state; raises CRDsError DISK."""
        return [listed for key in self.keys() if (listed := self.inspect(key)) is not None]

    def inspect(self, key: str) -> Listed | None:
        """Check an entry in any state; returns None if it does not exist. Raises CRDsError USAGE for an invalid key."""
        path = self.path(key)
        try:
            changed = datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
        except OSError:  # removed meanwhile
            return None
        try:
            with self.open_entry_directory(key) as directory:
                if directory is None:
                    return None
                record, _, problems = check_entry(directory, self._limits)
        except CRDsError as error:
            return Listed(key, path, "refused", 0, changed, None, str(error))
        if record is None:
            return Listed(key, path, "bare", measure_size(path), changed, None)
        state: State = "changed" if problems else "ready"
        return Listed(key, path, state, measure_size(path), record.asked_at, record, "; ".join(problems))

    # --- Writing ------------------------------------------------------------------------------------------------------

    def commit(
        self,
        key: str,
        staged: Staged,
        origin: Origin,
        *,
        sha256: str = "",
        strict: bool = False,
        normalize_dot: bool = False,
        seconds: float = LOCK_SECONDS,
    ) -> Entry:
        """Verify and unpack the tarball in a staging directory, record it, and make it the entry.

        Args:
            key: Key of the entry; the caller holds `lock`.
            staged: A directory of `staging` that has ``crds.tar.gz`` and no other files.
            origin: Origin of the tarball.
            sha256: The expected digest; ``""`` for any.
            strict: Treat warnings as errors.
            normalize_dot: Accept ``./crds/…`` for ``crds/…``; the tarball itself stays unchanged.
            seconds: Seconds to wait for readers.

        Raises:
            CRDsError: INTEGRITY, ARCHIVE, LIMIT, LOCKED or DISK; the entry stays unchanged.
        """
        record = self._build(key, staged, origin, sha256=sha256, strict=strict, normalize_dot=normalize_dot)
        self.put(key, staged, seconds=seconds)
        return Entry(key, self.path(key), record)

    def adopt(
        self,
        key: str,
        *,
        url: str = "",
        strict: bool = False,
        normalize_dot: bool = False,
        seconds: float = LOCK_SECONDS,
    ) -> Adopted | None:
        """Make an entry from the tarball in its directory, and unpack the tree again.

        This accepts tarballs that a user or Karmada's operator placed there, and repairs entries with a damaged tree.

        Args:
            key: Key of the entry; the caller holds `lock`.
            url: Redacted URL of the tarball, used if there is no record.
            strict: Treat warnings as errors.
            normalize_dot: Accept ``./crds/…`` for ``crds/…``; a record that allows it counts too.
            seconds: Seconds to wait for readers.

        Returns:
            The entry and the problems of its former tree; None without a tarball, or if its digest is not the recorded
            one.

        Raises:
            CRDsError: As `commit`.
        """
        with self.open_entry_directory(key) as directory:
            if directory is None or not has_tarball(directory):
                return None
            before = read_record(directory)
            normalize_dot = normalize_dot or (before is not None and before.normalize_dot)
            with self.staging() as staged:
                with self._reading(), translate_os_errors(f"copying the tarball of {key}"):
                    tarball = read_tarball(directory, self._limits)
                    if before is not None and hashlib.sha256(tarball).hexdigest() != before.sha256:
                        return None
                    write_new(TARBALL, staged.directory, tarball)
                    del tarball
                record = self._build(key, staged, _read_origin(before, url), strict=strict, normalize_dot=normalize_dot)
                with self._reading():
                    tarball = read_tarball(staged.directory, self._limits)
                    found = find_tree_problems(directory, TREE, tarball, self._limits, normalize_dot=normalize_dot)
                self.put(key, staged, seconds=seconds)
        return Adopted(Entry(key, self.path(key), record), tuple(found))

    def import_file(
        self,
        key: str,
        file: Path,
        origin: Origin,
        *,
        sha256: str = "",
        strict: bool = False,
        normalize_dot: bool = False,
    ) -> Entry:
        """Make a regular file the entry, replacing a former one; the size is checked before the file is copied.

        Args:
            key: Key of the entry.
            file: Path of a tarball.
            origin: Origin of the tarball.
            sha256: The expected digest; ``""`` for any.
            strict: Treat warnings as errors.
            normalize_dot: Accept ``./crds/…`` for ``crds/…``; the tarball itself stays unchanged.

        Raises:
            CRDsError: USAGE if the file cannot be read or is not regular; LIMIT; else as `commit`.
        """
        tarball = _load_file(file, self._limits)
        with self.lock(key), self.staging() as staged:
            with translate_os_errors(f"copying {file}"):
                write_new(TARBALL, staged.directory, tarball)
            return self.commit(key, staged, origin, sha256=sha256, strict=strict, normalize_dot=normalize_dot)

    def renew(self, entry: Entry, origin: Origin) -> Entry:
        """Record that the origin confirmed the entry as current; the caller holds `lock`."""
        now = self._clock()
        record = msgspec.structs.replace(
            entry.record, url=origin.url, final_url=origin.final_url, etag=origin.etag,
            last_modified=origin.last_modified, asked_at=now, asked=entry.record.asked + origin.asked,
        )  # fmt: skip
        with (
            translate_os_errors(f"recording {entry.key}"),
            self.open_entry_directory(entry.key) as directory,
            self.staging() as staged,
        ):
            if directory is not None:
                replace_record(directory, staged.directory, record)
        return entry._replace(record=record)

    def repair(self, key: str, *, seconds: float = LOCK_SECONDS) -> Adopted:
        """Read the entry completely, and unpack its tarball again if there is a problem.

        Raises:
            CRDsError: NOT_CACHED if the tarball is missing or not the recorded one; else as `commit`.
        """
        with self.lock(key, seconds):
            if (entry := self.entry(key)) is not None:
                return Adopted(entry, ())
            if (adopted := self.adopt(key, seconds=seconds)) is not None:
                return adopted
        raise CRDsError(Exit.NOT_CACHED, f"cannot repair {key}: its tarball is missing or was changed; fetch it again")

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        max_bytes: int | None = None,
        keep: int = 0,
        dry_run: bool = False,
    ) -> list[Listed]:
        """Remove entries that are too old, or exceed the size with younger ones; entries in use stay.

        Returns:
            The removed entries; with ``dry_run`` the entries to remove.

        Raises:
            CRDsError: DISK.
        """
        going = select_removable(
            self.entries(), now=self._clock(), older_than=older_than, max_bytes=max_bytes, keep=keep
        )
        return going if dry_run else [entry for entry in going if self._try_remove(entry.key)]

    def _try_remove(self, key: str) -> bool:
        try:
            return self.remove(key, seconds=0)
        except CRDsError as error:
            if error.exit is Exit.LOCKED:
                return False
            raise

    def _build(
        self, key: str, staged: Staged, origin: Origin, *, sha256: str = "", strict: bool, normalize_dot: bool
    ) -> Record:
        with self._reading():
            manifest = archive.unpack(
                _load_staged(key, staged, self._limits),
                staged.directory,
                limits=self._limits,
                strict=strict,
                normalize_dot=normalize_dot,
            )
        if sha256 and manifest.sha256 != sha256.strip().lower():
            raise CRDsError(Exit.INTEGRITY, f"the digest is {manifest.sha256}, not {sha256.strip().lower()}")
        with translate_os_errors(f"recording {key}"):
            with open_at(TARBALL, EXISTING, staged.directory) as file:
                os.fchmod(file, FILE_MODE)
            record = self._make_record(manifest, origin, normalize_dot=normalize_dot)
            write_record(staged.directory, record)
            os.fsync(staged.directory)
        return record

    def _make_record(self, manifest: archive.Manifest, origin: Origin, *, normalize_dot: bool) -> Record:
        now = self._clock()
        return Record(
            url=origin.url, final_url=origin.final_url, sha256=manifest.sha256, size=manifest.size, etag=origin.etag,
            last_modified=origin.last_modified, fetched_at=now, asked_at=now, asked=origin.asked,
            warnings=manifest.warnings, normalize_dot=normalize_dot,
        )  # fmt: skip


def _load_file(file: Path, limits: ArchiveLimits) -> bytes:
    try:
        return archive.load(file, limits=limits)
    except CRDsError as error:
        # The user named the file, so an unreadable file is an invalid argument.
        exit_code = Exit.USAGE if error.exit is Exit.DISK else error.exit
        raise CRDsError(exit_code, str(error)) from None


def _load_staged(key: str, staged: Staged, limits: ArchiveLimits) -> bytes:
    with translate_os_errors(f"reading what came for {key}"):
        return read_tarball(staged.directory, limits)


def _read_origin(record: Record | None, url: str) -> Origin:
    if record is None:
        return Origin(url=url, asked=0)
    return Origin(record.url, record.final_url, record.etag, record.last_modified, record.asked)
