"""Lists the entries of a cache, and selects entries to prune."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from fleethook.engines.crds.cache.metadata import Record

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
