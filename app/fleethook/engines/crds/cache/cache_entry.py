"""The directory of an entry: its record (``.meta.json``), its size and age, and the state of its files.

The tarball's digest is compared with the record, and the tree with the tarball. Links, and unsafe owners or modes, are
refused.

A writer of the tree can write the record too. So checks compare the bytes of the entry, and never trust the record
alone.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.engines.crds.archive.archive import list_files
from fleethook.engines.crds.archive.crd_content import ArchiveLimits
from fleethook.engines.crds.archive.unpacked_tree import verify_tree
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import DIRECTORY, NO_DIRECTORY, exists, read_regular, write_new

RECORD: Final = ".meta.json"
TARBALL: Final = "crds.tar.gz"
TREE: Final = "crds"
_SCHEMA: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Records of earlier fleethook releases have a digest and the status of up to 2,048 files."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an entry, and the digest of its tarball."""

    schema: int = _SCHEMA
    url: str
    """The URL, redacted like ``final_url``; ``""`` for a tarball of unknown origin that a user placed there."""
    final_url: str
    sha256: str
    """Digest of the tarball, compared with its bytes at every use."""
    size: int
    etag: str
    last_modified: str
    fetched_at: datetime
    asked_at: datetime
    """Time of the origin's last confirmation."""
    asked: int
    """Number of the origin's confirmations. A process that waited for a lock compares it, to see whether another
    process asked meanwhile. A time would depend on the clock."""
    warnings: tuple[str, ...]
    normalize_dot: bool = False
    """Whether its tarball may have ``./crds/…``: needed to unpack the tree again."""


_DECODER: Final = msgspec.json.Decoder(Record)


def read_record(directory: int) -> Record | None:
    """Return the record of the entry that is open as ``directory``; None if it is missing or invalid."""
    try:
        record = _DECODER.decode(read_regular(RECORD, directory, most=_MAX_BYTES))
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return record if record.schema == _SCHEMA else None


def write_record(directory: int, record: Record) -> None:
    """Write a new record into an open directory and sync it to disk; raises OSError."""
    write_new(RECORD, directory, msgspec.json.format(msgspec.json.encode(record), indent=1))


def replace_record(directory: int, staged: int, record: Record) -> None:
    """Replace the record of the entry that is open as ``directory`` atomically; raises OSError.

    Args:
        directory: Descriptor of the entry.
        staged: Descriptor of an empty directory on the same file system.
        record: The new record.
    """
    write_record(staged, record)
    os.rename(RECORD, RECORD, src_dir_fd=staged, dst_dir_fd=directory)
    os.fsync(directory)


_KEY: Final = re.compile(r"[0-9a-f]{64}")


def is_key(name: str) -> bool:
    """Return whether a name is the key of an entry: a hexadecimal SHA-256 digest."""
    return _KEY.fullmatch(name) is not None


@contextmanager
def translate_os_errors(doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a CRDsError DISK; the message has ``doing`` and the path."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise CRDsError(Exit.DISK, f"{doing}: {error.strerror or error}{where}", transient=True) from error


def open_directory(path: Path, parent: int | None = None) -> int | None:
    """Open a directory of the cache and return its descriptor, or None if it does not exist.

    Args:
        path: The directory. With ``parent`` only the last component is opened; errors show the complete path.
        parent: Descriptor of the parent directory.

    Raises:
        CRDsError: DISK for a link, and for a file that is not a directory.
        OSError: The directory cannot be opened.
    """
    try:
        return os.open(path if parent is None else path.name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in NO_DIRECTORY:
            raise
        status = _stat(path if parent is None else path.name, parent)
        linked = status is not None and stat.S_ISLNK(status.st_mode)
        raise _make_refusal(path, "is a symbolic link" if linked else "is not a directory") from None


def open_entry(path: Path, parent: int) -> int | None:
    """Open an entry's directory, if its owner and mode are safe, and return its descriptor; None if it does not exist.

    A user who can write an entry decides on the CRDs of the control planes. So symbolic links, files of other users and
    world-writable files are refused. The owner may be the user of this process, or root, which pre-seeds volumes. The
    group may write, because that is how pods share volumes.

    Raises:
        CRDsError: DISK for a directory that is refused or cannot be opened.
    """
    with translate_os_errors("reading the cache"):
        directory = open_directory(path, parent)
        if directory is None:
            return None
        try:
            _check_owner_and_mode(path, os.fstat(directory), stat.S_ISDIR, "directory")
            tarball = _stat(TARBALL, directory)
            if tarball is not None:
                _check_owner_and_mode(path / TARBALL, tarball, stat.S_ISREG, "regular file")
        except BaseException:
            os.close(directory)
            raise
        return directory


def has_tarball(directory: int) -> bool:
    """Return whether an open entry has a tarball that is not empty."""
    tarball = _stat(TARBALL, directory)
    return tarball is not None and tarball.st_size > 0


def _stat(path: str | Path, parent: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_owner_and_mode(path: Path, status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        wrong = "is a symbolic link"
    elif not is_kind(status.st_mode):
        wrong = f"is not a {kind}"
    elif status.st_uid not in {0, os.geteuid()}:
        wrong = f"belongs to user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & stat.S_IWOTH:
        wrong = "is world-writable"
    else:
        return
    raise _make_refusal(path, wrong)


def _make_refusal(path: Path, wrong: str) -> CRDsError:
    return CRDsError(Exit.DISK, f"{path} {wrong}: refused; remove it, or correct its type, owner and mode")


State = Literal["ready", "bare", "changed", "refused"]
"""``ready``: verified. ``bare``: a tarball without a record, adopted at the next fetch. ``changed``: differs from its
record. ``refused``: a link, or an unsafe owner or mode."""


class Listed(NamedTuple):
    """An entry in any state."""

    key: str
    path: Path
    state: State
    size: int
    """Bytes of all files, tarball and tree."""
    asked_at: datetime
    """Time of the origin's last confirmation; without a record, the modification time of the directory."""
    record: Record | None
    problem: str = ""


def measure_size(path: Path) -> int:
    """Return the bytes of the files below a directory; follows no symbolic links, not even ``path`` itself."""
    total = 0
    for _, _, files, directory in os.fwalk(path):
        for name in files:
            try:
                total += os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def select_removable(
    entries: Sequence[Listed],
    *,
    now: datetime,
    older_than: timedelta | None = None,
    max_bytes: int | None = None,
    keep: int = 0,
) -> list[Listed]:
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


class Checked(NamedTuple):
    """The result of checking an entry."""

    record: Record | None
    tarball: bytes
    """The tarball's bytes; empty if they do not have the recorded digest."""
    problems: Sequence[str]
    """The problems, one line each."""


def read_tarball(directory: int, limits: ArchiveLimits) -> bytes:
    """Return the bytes of the tarball in an open directory; raises OSError, and CRDsError LIMIT if it is too large."""
    try:
        return read_regular(TARBALL, directory, most=limits.download_bytes)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        raise CRDsError(Exit.LIMIT, f"the tarball has more than {limits.download_bytes} bytes") from None


def check_entry(directory: int, limits: ArchiveLimits) -> Checked:
    """Check the entry that is open as ``directory``.

    The tree is compared with the files in the tarball, not with the record: a writer of the tree can edit the record
    too. A release takes about 10 ms.

    Raises:
        CRDsError: DISK if the tree cannot be read.
    """
    record = read_record(directory)
    if record is None:
        return Checked(None, b"", ["the entry has no record"])
    try:
        tarball = read_tarball(directory, limits)
    except (OSError, CRDsError):
        tarball = b""
    if hashlib.sha256(tarball).hexdigest() != record.sha256:
        return Checked(record, b"", [f"{TARBALL} differs from its record"])
    try:
        manifest = list_files(tarball, limits=limits, normalize_dot=record.normalize_dot)
    except CRDsError as error:
        return Checked(record, b"", [f"{TARBALL} cannot be used: {error}"])
    return Checked(record, tarball, verify_tree(directory, manifest))


def find_tree_problems(
    directory: int, tree: str, tarball: bytes, limits: ArchiveLimits, *, normalize_dot: bool
) -> list[str]:
    """Return the differences of an entry's tree from a tarball; none without a tree. Raises CRDsError DISK."""
    with translate_os_errors("reading the cache"):
        if not exists(tree, directory):
            return []
    return verify_tree(directory, list_files(tarball, limits=limits, normalize_dot=normalize_dot))
