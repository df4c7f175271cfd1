"""The cache of CRD tarballs: entries that are whole or not there (research 6.3).

``<root>/cache/<key>/`` holds ``crds.tar.gz`` and ``crds/…``, in real directories where the Go operator finds them, and
``.meta.json``, which it does not look at. An entry is built in ``.staging`` and takes its place in one step.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from app.crds.archive import archive
from app.crds.archive.limits import LIMITS, Limits
from app.crds.cache.checking import problems_of, recorded, tree_problems
from app.crds.cache.guard import entry_exists, has_tarball, on_disk
from app.crds.cache.listing import Listed, State, removable, size_of
from app.crds.cache.locks import if_free
from app.crds.cache.places import LOCK_SECONDS, Places
from app.crds.cache.record import (
    RECORD,
    TARBALL,
    TREE,
    FileRecord,
    Record,
    Seen,
    copy_file,
    look,
    write_record,
)
from app.crds.cache.staging import flush_names
from app.crds.failures import CRDsError, Exit


class Entry(NamedTuple):
    """A whole entry."""

    key: str
    path: Path
    record: Record


class Adopted(NamedTuple):
    """An entry made of the tarball that lay there."""

    entry: Entry
    found: tuple[str, ...]
    """What was wrong with the tree beside the tarball."""


class Origin(NamedTuple):
    """Where a tarball came from; addresses redacted."""

    url: str = ""
    final_url: str = ""
    etag: str = ""
    last_modified: str = ""
    asked: int = 1
    """How often the origin was asked: not at all for what lay there already."""


def _now() -> datetime:
    return datetime.now(UTC)


class Cache(Places):
    """Entries by key, for threads and processes at once."""

    def __init__(self, root: Path, *, limits: Limits = LIMITS, clock: Callable[[], datetime] = _now) -> None:
        """Prepare; nothing is made on disk before something is to be written.

        Args:
            root: The data directory (``/var/lib/karmada``); the cache is ``cache`` below it.
            limits: What an archive may be.
            clock: Tells what records are dated with; nothing is decided by it but what `prune` takes for old.
        """
        super().__init__(root)
        self._limits: Final = limits
        self._clock: Final = clock

    # --- Looking ------------------------------------------------------------------------------------------------------

    def entry(self, key: str, *, thorough: bool = False) -> Entry | None:
        """Return the entry if it is whole: as recorded, by how its files look, or else by what is in them.

        Args:
            key: Whose.
            thorough: Read and hash everything, whatever it looks like.

        Raises:
            CRDsError: DISK for a link, or what belongs to somebody else.
        """
        path = self.path(key)
        record, untouched = recorded(path)
        if record is None:
            return None
        if untouched and not thorough:
            return Entry(key, path, record)
        return self._hashed(key, path, record)

    def verify(self, key: str) -> list[str]:
        """Return what is wrong with the entry after reading all of it; raises CRDsError NOT_CACHED if there is none."""
        path = self.path(key)
        if not entry_exists(path):
            raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {self.directory}")
        record, _ = recorded(path)
        return ["there is no record of it"] if record is None else self._problems(path, record)

    def entries(self) -> list[Listed]:
        """Return everything that is in the place of an entry; raises CRDsError DISK."""
        return [listed for key in self.keys() if (listed := self._listed(key)) is not None]

    def _hashed(self, key: str, path: Path, record: Record) -> Entry | None:
        try:
            seen = look(path)  # before reading: what changes while we read looks changed the next time
        except OSError:
            return None
        if self._problems(path, record):
            return None
        fresh = msgspec.structs.replace(record, seen=seen, verified_at=self._clock())
        # Only spares the next one the reading; another one who has the lock, or a cache that cannot be written to, may.
        with suppress(OSError, CRDsError), if_free(self.fetch_lock(key)) as ours:
            if ours and recorded(path)[0] == record:
                self._rewrite(path, fresh)
        return Entry(key, path, fresh)

    def _problems(self, path: Path, record: Record) -> list[str]:
        return problems_of(path, record, most=self._limits.download_bytes)

    def _listed(self, key: str) -> Listed | None:
        path = self.path(key)
        try:
            changed = datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
        except OSError:  # it went meanwhile
            return None
        try:
            record, untouched = recorded(path)
        except CRDsError as error:
            return Listed(key, path, "refused", 0, changed, None, str(error))
        if record is None:
            return Listed(key, path, "bare", size_of(path), changed, None)
        problems = [] if untouched else self._problems(path, record)
        state: State = "changed" if problems else "ready"
        return Listed(key, path, state, size_of(path), record.asked_at, record, "; ".join(problems))

    # --- Bringing in --------------------------------------------------------------------------------------------------

    def commit(
        self,
        key: str,
        staged: Path,
        origin: Origin,
        *,
        sha256: str = "",
        strict: bool = False,
        normalize_dot: bool = False,
        seconds: float = LOCK_SECONDS,
    ) -> Entry:
        """Verify and unpack the tarball in a staging directory, record it, and let it be the entry.

        Args:
            key: Whose; the caller holds `lock`.
            staged: What `staging` gave, with ``crds.tar.gz`` in it and nothing else.
            origin: Where it came from.
            sha256: What it must be; ``""`` for whatever it is.
            strict: Whether what is only odd is an error.
            normalize_dot: Whether ``./crds/…`` in it is ``crds/…``; the tarball is kept as it is.
            seconds: How long to wait for readers.

        Raises:
            CRDsError: INTEGRITY, ARCHIVE, LIMIT, LOCKED or DISK; the entry is as before.
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
        """Make an entry of the tarball that lies in its place, by whomever; its tree is unpacked anew.

        That is how hand-placed tarballs come in, what the Go operator wrote, and what was damaged since it was whole.

        Args:
            key: Whose; the caller holds `lock`.
            url: Of whom it is the tarball, redacted, where no record tells.
            strict: Whether what is only odd is an error.
            normalize_dot: Whether ``./crds/…`` in it is ``crds/…``, as it is if the entry was made with that.
            seconds: How long to wait for readers.

        Returns:
            The entry and what was found wrong; None without a tarball, or with one that is not what was recorded.

        Raises:
            CRDsError: As `commit`.
        """
        path = self.path(key)
        if not entry_exists(path) or not has_tarball(path):
            return None
        before, _ = recorded(path)
        with self.staging() as staged:
            with on_disk(f"copying the tarball of {key}"):
                digest = copy_file(path / TARBALL, staged / TARBALL, most=self._limits.download_bytes)
            if before is not None and digest != before.sha256:
                return None
            normalize_dot = normalize_dot or (before is not None and before.normalize_dot)
            record = self._build(key, staged, _origin_of(before, url), strict=strict, normalize_dot=normalize_dot)
            found = tree_problems(path, record) if os.path.lexists(path / TREE) else []
            self.put(key, staged, seconds=seconds)
        return Adopted(Entry(key, path, record), tuple(found))

    def renew(self, entry: Entry, origin: Origin) -> Entry:
        """Record that the origin said that the entry is still what it has; the caller holds `lock`."""
        now = self._clock()
        record = msgspec.structs.replace(
            entry.record, url=origin.url, final_url=origin.final_url, etag=origin.etag,
            last_modified=origin.last_modified, asked_at=now, asked=entry.record.asked + origin.asked,
        )  # fmt: skip
        self._rewrite(entry.path, record)
        return entry._replace(record=record)

    def repair(self, key: str, *, seconds: float = LOCK_SECONDS) -> Adopted:
        """Read all of the entry and unpack its tarball anew if anything is wrong.

        Raises:
            CRDsError: NOT_CACHED if the tarball is gone or not the one recorded: fetch it; else as `commit`.
        """
        with self.lock(key, seconds):
            if (entry := self.entry(key, thorough=True)) is not None:
                return Adopted(entry, ())
            if (adopted := self.adopt(key, seconds=seconds)) is not None:
                return adopted
        raise CRDsError(Exit.NOT_CACHED, f"nothing to repair {key} from: its tarball is gone or was changed; fetch it")

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        most_bytes: int | None = None,
        keep: int = 0,
        dry_run: bool = False,
    ) -> list[Listed]:
        """Remove entries that are too old and then those that do not fit, oldest first; those in use stay.

        Returns:
            What went, or would have gone.

        Raises:
            CRDsError: DISK.
        """
        going = removable(self.entries(), now=self._clock(), older_than=older_than, most_bytes=most_bytes, keep=keep)
        return going if dry_run else [entry for entry in going if self._removed(entry.key)]

    def _removed(self, key: str) -> bool:
        try:
            return self.remove(key, seconds=0)
        except CRDsError as error:
            if error.exit is Exit.LOCKED:
                return False
            raise

    def _build(
        self, key: str, staged: Path, origin: Origin, *, sha256: str = "", strict: bool, normalize_dot: bool
    ) -> Record:
        manifest = archive.unpack(
            staged / TARBALL, staged, limits=self._limits, strict=strict, normalize_dot=normalize_dot
        )
        if sha256 and manifest.sha256 != sha256.strip().lower():
            raise CRDsError(Exit.INTEGRITY, f"the tarball is {manifest.sha256}, and {sha256.strip().lower()} is wanted")
        with on_disk(f"recording {key}"):
            (staged / TARBALL).chmod(0o640)
            record = self._record(manifest, origin, look(staged), normalize_dot=normalize_dot)
            write_record(staged / RECORD, record)
            flush_names(staged)
        return record

    def _record(
        self, manifest: archive.Manifest, origin: Origin, seen: dict[str, Seen], *, normalize_dot: bool
    ) -> Record:
        now = self._clock()
        return Record(
            url=origin.url, final_url=origin.final_url, sha256=manifest.sha256, size=manifest.size, etag=origin.etag,
            last_modified=origin.last_modified, fetched_at=now, verified_at=now, asked_at=now, asked=origin.asked,
            warnings=manifest.warnings, seen=seen, normalize_dot=normalize_dot,
            manifest={name: FileRecord(file.size, file.sha256) for name, file in manifest.files.items()},
        )  # fmt: skip

    def _rewrite(self, path: Path, record: Record) -> None:
        with self.staging() as staged, on_disk(f"recording {path.name}"):
            write_record(staged / RECORD, record)
            (staged / RECORD).replace(path / RECORD)
            flush_names(path)


def _origin_of(record: Record | None, url: str) -> Origin:
    if record is None:
        return Origin(url=url, asked=0)
    return Origin(record.url, record.final_url, record.etag, record.last_modified, record.asked)
