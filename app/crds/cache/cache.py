"""The cache of CRD tarballs: entries that are whole or not there (research 6.3).

``<root>/cache/<key>/`` holds ``crds.tar.gz`` and ``crds/…``, in real directories where the Go operator finds them, and
``.meta.json``, which it does not look at. An entry is built in ``.staging`` and takes its place in one step.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

import msgspec

from app.crds.archive import archive
from app.crds.archive.limits import LIMITS, Limits
from app.crds.cache.integrity import check_entry, find_tree_problems, read_tarball
from app.crds.cache.layout import LOCK_SECONDS, Layout
from app.crds.cache.listing import Listed, State, measure_size, select_removable
from app.crds.cache.metadata import TARBALL, TREE, Record, read_record, replace_record, write_record
from app.crds.cache.permissions import has_tarball, translate_os_errors
from app.crds.cache.staging import Staged
from app.crds.descriptors import EXISTING, FILE_MODE, open_at, write_new
from app.crds.failures import CRDsError, Exit


class Verify(Protocol):
    """Verifies a tarball as `archive.verify` does, elsewhere."""

    def __call__(self, load: Callable[[], bytes], *, strict: bool, normalize_dot: bool) -> archive.Manifest:
        """Return the manifest of the tarball that ``load`` returns; raises CRDsError."""
        ...


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


def _read_clock() -> datetime:
    return datetime.now(UTC)


class Cache(Layout):
    """Entries by key, for threads and processes at once."""

    def __init__(
        self,
        root: Path,
        *,
        limits: Limits = LIMITS,
        clock: Callable[[], datetime] = _read_clock,
        verify: Verify | None = None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Prepare; nothing is made on disk before something is to be written.

        Args:
            root: The data directory (``/var/lib/karmada``); the cache is ``cache`` below it.
            limits: What an archive may be.
            clock: Tells what records are dated with; nothing is decided by it but what `prune` takes for old.
            verify: Verifies tarballs that are taken in, before they are unpacked; None to do that in this process.
            reading: Entered while a tarball is in memory, except within ``verify``. It is never nested.
        """
        super().__init__(root)
        self._verify: Final = verify
        self._reading: Final = reading
        self._limits: Final = limits
        self._clock: Final = clock

    def bounded_by(self, verify: Verify, reading: Callable[[], AbstractContextManager[None]]) -> Self:
        """Return this cache with other ways to verify tarballs and to wait for the memory that they take."""
        return type(self)(self.directory.parent, limits=self._limits, clock=self._clock, verify=verify, reading=reading)

    # --- Looking ------------------------------------------------------------------------------------------------------

    def entry(self, key: str) -> Entry | None:
        """Return the entry if it is whole: all of it is read, the tarball against its record, the tree against it.

        Raises:
            CRDsError: DISK for a link, or what belongs to somebody else.
        """
        found = self.tarball(key)
        return None if found is None else found[0]

    def tarball(self, key: str) -> tuple[Entry, bytes] | None:
        """Return the entry if it is whole, and the bytes that were checked; errors as `entry`.

        Use these bytes, and not the files: somebody may change them meanwhile.
        """
        with self.open_entry_directory(key) as directory:
            if directory is None:
                return None
            with self._reading():
                record, tarball, problems = check_entry(directory, self._limits)
        return None if record is None or problems else (Entry(key, self.path(key), record), tarball)

    def verify(self, key: str) -> list[str]:
        """Return what is wrong with the entry after reading all of it; raises CRDsError NOT_CACHED if there is none."""
        with self.open_entry_directory(key) as directory:
            if directory is None:
                raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {self.directory}")
            return list(check_entry(directory, self._limits).problems)

    def entries(self) -> list[Listed]:
        """Return everything that is in the place of an entry; raises CRDsError DISK."""
        return [listed for key in self.keys() if (listed := self._list_entry(key)) is not None]

    def _list_entry(self, key: str) -> Listed | None:
        path = self.path(key)
        try:
            changed = datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)
        except OSError:  # it went meanwhile
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

    # --- Bringing in --------------------------------------------------------------------------------------------------

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
        """Verify and unpack the tarball in a staging directory, record it, and let it be the entry.

        Args:
            key: Whose; the caller holds `lock`.
            staged: What `staging` gave, with ``crds.tar.gz`` in it and nothing else.
            origin: Where it came from.
            sha256: The expected digest; ``""`` for any.
            strict: Whether warnings are errors.
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
            strict: Whether warnings are errors.
            normalize_dot: Whether ``./crds/…`` in it is ``crds/…``, as it is if the entry was made with that.
            seconds: How long to wait for readers.

        Returns:
            The entry and what was found wrong; None without a tarball, or with one that is not what was recorded.

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

    def bring(
        self,
        key: str,
        file: Path,
        origin: Origin,
        *,
        sha256: str = "",
        strict: bool = False,
        normalize_dot: bool = False,
    ) -> Entry:
        """Make a regular file the entry, in place of a former one; its limits are checked before anything is copied.

        Args:
            key: Whose.
            file: A tarball.
            origin: Where it came from.
            sha256: The expected digest; ``""`` for any.
            strict: Whether warnings are errors.
            normalize_dot: Whether ``./crds/…`` in it is ``crds/…``; the tarball is kept as it is.

        Raises:
            CRDsError: USAGE when the file cannot be read or is no regular file; LIMIT; else as `commit`.
        """
        tarball = _load_file(file, self._limits)
        with self.lock(key), self.staging() as staged:
            with translate_os_errors(f"copying {file}"):
                write_new(TARBALL, staged.directory, tarball)
            return self.commit(key, staged, origin, sha256=sha256, strict=strict, normalize_dot=normalize_dot)

    def renew(self, entry: Entry, origin: Origin) -> Entry:
        """Record that the origin said that the entry is still what it has; the caller holds `lock`."""
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
        """Read all of the entry and unpack its tarball anew if anything is wrong.

        Raises:
            CRDsError: NOT_CACHED if the tarball is gone or not the one recorded: fetch it; else as `commit`.
        """
        with self.lock(key, seconds):
            if (entry := self.entry(key)) is not None:
                return Adopted(entry, ())
            if (adopted := self.adopt(key, seconds=seconds)) is not None:
                return adopted
        raise CRDsError(Exit.NOT_CACHED, f"nothing to repair {key} from: its tarball is gone or was changed; fetch it")

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        max_bytes: int | None = None,
        keep: int = 0,
        dry_run: bool = False,
    ) -> list[Listed]:
        """Remove entries that are too old and then those that do not fit, oldest first; those in use stay.

        Returns:
            What went, or would have gone.

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
        load = partial(_load_staged, key, staged, self._limits)
        verified = None if self._verify is None else self._verify(load, strict=strict, normalize_dot=normalize_dot)
        with self._reading():
            manifest = archive.unpack(
                load(),
                staged.directory,
                limits=self._limits,
                strict=strict,
                normalize_dot=normalize_dot,
                verified=verified,
            )
        if sha256 and manifest.sha256 != sha256.strip().lower():
            raise CRDsError(Exit.INTEGRITY, f"the tarball is {manifest.sha256}, and {sha256.strip().lower()} is wanted")
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


def _load_file(file: Path, limits: Limits) -> bytes:
    try:
        return archive.load(file, limits=limits)
    except CRDsError as error:
        # A file that somebody named, and not our disk.
        exit_code = Exit.USAGE if error.exit is Exit.DISK else error.exit
        raise CRDsError(exit_code, str(error)) from None


def _load_staged(key: str, staged: Staged, limits: Limits) -> bytes:
    with translate_os_errors(f"reading what came for {key}"):
        return read_tarball(staged.directory, limits)


def _read_origin(record: Record | None, url: str) -> Origin:
    if record is None:
        return Origin(url=url, asked=0)
    return Origin(record.url, record.final_url, record.etag, record.last_modified, record.asked)
