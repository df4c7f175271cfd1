"""The record of a cache entry: ``.meta.json``.

It tells where the tarball came from and when. The bytes tell what the entry is: a writer of the tree can write the
record too, so nothing is right because the record says so.
"""

import os
from datetime import datetime
from typing import Final

import msgspec

from app.crds.descriptors import read_regular, write_new

RECORD: Final = ".meta.json"
TARBALL: Final = "crds.tar.gz"
TREE: Final = "crds"
_SCHEMA: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Records of earlier releases have a digest and stats for each of 2,048 files."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: where it came from, and the digest of its tarball."""

    schema: int = _SCHEMA
    url: str
    """Redacted, as is the next; ``""`` for a tarball placed by hand whose URL nobody told."""
    final_url: str
    sha256: str
    """Of the tarball. It is compared with the bytes at every use."""
    size: int
    etag: str
    last_modified: str
    fetched_at: datetime
    asked_at: datetime
    """When the origin last said that this is it."""
    asked: int
    """How often it said so; what waits for a lock sees by it that others have asked meanwhile (clocks jump)."""
    warnings: tuple[str, ...]
    normalize_dot: bool = False
    """Whether its tarball may say ``./crds/…``, without which the tree could not be unpacked anew."""


_DECODER: Final = msgspec.json.Decoder(Record)


def read_record(directory: int) -> Record | None:
    """Return the record of the entry open as ``directory``; None where there is none that we wrote."""
    try:
        record = _DECODER.decode(read_regular(RECORD, directory, most=_MAX_BYTES))
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return record if record.schema == _SCHEMA else None


def write_record(directory: int, record: Record) -> None:
    """Write a new file into an open directory, known to the disk when this returns; raises OSError."""
    write_new(RECORD, directory, msgspec.json.format(msgspec.json.encode(record), indent=1))


def replace_record(directory: int, staged: int, record: Record) -> None:
    """Replace the record of the entry open as ``directory``, by way of an open empty one; raises OSError."""
    write_record(staged, record)
    os.rename(RECORD, RECORD, src_dir_fd=staged, dst_dir_fd=directory)
    os.fsync(directory)
