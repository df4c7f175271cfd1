"""What an entry of the cache says about itself: ``.meta.json``, written last, and whether it still holds."""

import errno
import hashlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple

import msgspec

RECORD: Final = ".meta.json"
TARBALL: Final = "crds.tar.gz"
TREE: Final = "crds"
_SCHEMA: Final = 1
_MOST_BYTES: Final = 4 * 1024 * 1024
"""2,048 entries (the most that an archive may have) of a 1,024 byte path, a digest and stats each, fit."""
_CHUNK: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Seen(NamedTuple):
    """What the file system said about a file or directory when it was known to be right.

    The change time is what makes it worth something: nothing sets it but the kernel, at every write, truncation, rename
    or chmod of a file and at every name that comes to or goes from a directory. It does not tell of bytes that changed
    below the file system (a failing disk), nor of whoever sets the machine's clock to write within the same instant.
    """

    size: int
    modified_ns: int
    changed_ns: int
    inode: int


class FileRecord(msgspec.Struct, frozen=True):
    """What a file of the tree must be."""

    size: int
    sha256: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: where it came from, what it must be, and what it looked like when that was checked."""

    schema: int = _SCHEMA
    url: str
    """Redacted, as is the next; ``""`` for a tarball placed by hand whose URL nobody told."""
    final_url: str
    sha256: str
    size: int
    etag: str
    last_modified: str
    fetched_at: datetime
    verified_at: datetime
    asked_at: datetime
    """When the origin last said that this is it."""
    asked: int
    """How often it said so; what waits for a lock sees by it that others have asked meanwhile (clocks jump)."""
    warnings: tuple[str, ...]
    normalize_dot: bool = False
    """Whether its tarball may say ``./crds/…``, without which the tree could not be unpacked anew."""
    manifest: dict[str, FileRecord]
    seen: dict[str, Seen]


_DECODER: Final = msgspec.json.Decoder(Record)


def read_record(directory: int) -> Record | None:
    """Return the record of the entry open as ``directory``; None where there is none that we wrote."""
    try:
        descriptor = os.open(RECORD, _READ | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            record = _DECODER.decode(file.read(_MOST_BYTES))
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
            return None
    fits = record.schema == _SCHEMA and TARBALL in record.seen and all(map(_is_ours, record.manifest))
    return record if fits else None


def _is_ours(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and parts[0] == TREE and ".." not in parts and "\0" not in name


def write_record(path: Path, record: Record) -> None:
    """Write a new file, known to the disk when this returns."""
    descriptor = os.open(path, _NEW, 0o640)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
        file.flush()
        os.fsync(descriptor)


def look(directory: Path) -> dict[str, Seen]:
    """Return how the tarball of an entry, its tree and all below it look; symbolic links are not followed."""
    seen = {TARBALL: _seen(os.lstat(directory / TARBALL))}
    for path, _, files in os.walk(directory / TREE):
        below = Path(path)
        for one in (below, *(below / name for name in files)):
            seen[str(one.relative_to(directory))] = _seen(os.lstat(one))
    return seen


def unchanged(directory: int, seen: Mapping[str, Seen]) -> bool:
    """Tell whether the entry open as ``directory`` still looks as it did; some microseconds for each name."""
    try:
        return all(_seen(os.stat(name, dir_fd=directory, follow_symlinks=False)) == was for name, was in seen.items())
    except (OSError, ValueError):
        return False


def _seen(status: os.stat_result) -> Seen:
    return Seen(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def digest_of(path: Path, *, most: int) -> str:
    """Return the SHA-256 of a regular file; ``""`` if it is none, cannot be read, or is longer than ``most`` bytes."""
    try:
        with _reading(path) as file:
            return _digest(file, most=most)
    except OSError:
        return ""


def copy_file(source: Path, target: Path, *, most: int) -> str:
    """Copy a regular file into a new one, known to the disk when this returns, and return its SHA-256.

    Raises:
        OSError: One or the other, and EFBIG if there are more than ``most`` bytes.
    """
    descriptor = os.open(target, _NEW, 0o640)
    with os.fdopen(descriptor, "wb") as copy, _reading(source) as file:
        digest = _digest(file, most=most, copy=copy)
        copy.flush()
        os.fsync(descriptor)
    return digest


def _reading(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, _READ | os.O_NONBLOCK), "rb")


def _digest(file: BinaryIO, *, most: int, copy: BinaryIO | None = None) -> str:
    total, digest = 0, hashlib.sha256()
    while chunk := file.read(_CHUNK):
        total += len(chunk)
        if total > most:
            raise OSError(errno.EFBIG, f"more than {most} bytes")
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return digest.hexdigest()
