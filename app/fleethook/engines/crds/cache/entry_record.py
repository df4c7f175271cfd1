"""The record of a cache entry: ``.meta.json``, with the origin and date of its tarball.

A writer of the tree can write the record too. So checks compare the bytes of the entry, and never trust the record
alone.
"""

import os
from datetime import datetime
from typing import Final

import msgspec

from fleethook.engines.crds.descriptors import read_regular, write_new

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
    """Redacted, as the next one is; ``""`` for a tarball of unknown origin that a user placed there."""
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
    """Number of the origin's confirmations. A process that waits for a lock sees by it that another one asked
    meanwhile; a time would depend on the clock."""
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
