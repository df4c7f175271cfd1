"""The state of an entry: the tarball's digest against the record, the tree against the tarball, its size and age."""

import errno
import hashlib
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from fleethook.engines.crds.archive.archive import list_files, verify_tree
from fleethook.engines.crds.archive.archive_limits import ArchiveLimits
from fleethook.engines.crds.cache.entry_directory import TARBALL, Record, read_record, translate_os_errors
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import exists, read_regular

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
    """Return the entries to remove, oldest first: those that are too old, then those that exceed the size.

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
        return Checked(None, b"", ["it has no record"])
    try:
        tarball = read_tarball(directory, limits)
    except (OSError, CRDsError):
        tarball = b""
    if hashlib.sha256(tarball).hexdigest() != record.sha256:
        return Checked(record, b"", [f"{TARBALL} is not the recorded one"])
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
