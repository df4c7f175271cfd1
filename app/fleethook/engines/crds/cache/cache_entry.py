"""The directory of an entry: its record (``.meta.json``), its size and age, and the check of its tarball.

Links, and unsafe owners or modes, are refused: a user who can write an entry decides on the CRDs of the control planes.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.engines.crds.archive.names_content_limits import ArchiveLimits
from fleethook.engines.crds.archive.tarball_unpacking import read_regular
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit

RECORD: Final = ".meta.json"
TARBALL: Final = "crds.tar.gz"
_SCHEMA: Final = 1
_MAX_BYTES: Final = 1024 * 1024
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class CacheRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an entry, and the digest of its tarball."""

    schema: int = _SCHEMA
    url: str
    """The URL, redacted like ``final_url``."""
    final_url: str
    sha256: str
    """Digest of the tarball, compared with its bytes at every use."""
    size: int
    etag: str
    last_modified: str
    fetched_at: datetime
    asked_at: datetime
    """Time of the origin's last confirmation."""
    warnings: tuple[str, ...]


_DECODER: Final = msgspec.json.Decoder(CacheRecord)


def write_record(path: Path, record: CacheRecord) -> None:
    """Write a new record and sync it to disk; raises OSError."""
    with path.open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
        file.flush()
        os.fsync(file.fileno())


def _read_record(path: Path) -> CacheRecord | None:
    try:
        record = _DECODER.decode(read_regular(path, most=_MAX_BYTES))
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return record if record.schema == _SCHEMA else None


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


class Checked(NamedTuple):
    """An entry, the bytes of its tarball, and the problem of the tarball; both ``""`` unless there is a record."""

    record: CacheRecord | None
    tarball: bytes = b""
    problem: str = ""


def check_entry(path: Path, limits: ArchiveLimits) -> Checked | None:
    """Read the tarball of an entry and compare its digest with the record; returns None if there is no entry.

    Raises:
        CRDsError: DISK for a directory or tarball that is refused, or cannot be read.
    """
    with translate_os_errors("reading the cache"):
        if path.parent.is_symlink():
            raise _make_refusal(path.parent, "is a symbolic link")
        try:
            _check_owner_and_mode(path, path.lstat(), stat.S_ISDIR, "directory")
        except FileNotFoundError:
            return None
        tarball = path / TARBALL
        try:
            _check_owner_and_mode(tarball, tarball.lstat(), stat.S_ISREG, "regular file")
        except FileNotFoundError:
            return Checked(None)
    record = _read_record(path / RECORD)
    if record is None:
        return Checked(None)
    try:
        data = read_regular(tarball, most=limits.tarball_bytes)
    except OSError as error:
        return Checked(record, problem=f"{TARBALL}: {error.strerror or error}")
    if hashlib.sha256(data).hexdigest() != record.sha256:
        return Checked(record, problem=f"{TARBALL} differs from its record")
    return Checked(record, data)


def _check_owner_and_mode(path: Path, status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> None:
    # The owner may be root, which pre-seeds volumes. The group may write, because that is how pods share volumes.
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
"""``ready``: verified. ``bare``: without a record. ``changed``: the tarball differs from its record. ``refused``: a
link, or an unsafe owner or mode."""


class ListedEntry(NamedTuple):
    """An entry in any state."""

    key: str
    path: Path
    state: State
    size: int
    """Bytes of all files, tarball and tree."""
    asked_at: datetime
    """Time of the origin's last confirmation; without a record, the modification time of the directory."""
    record: CacheRecord | None
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
