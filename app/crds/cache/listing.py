"""The entries of a cache as a list, and which of them can go."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from app.crds.cache.metadata import Record

State = Literal["ready", "bare", "changed", "refused"]
"""As recorded; a tarball without a record, adopted when it is wanted; not what was recorded; not to be touched."""


class Listed(NamedTuple):
    """An entry, whatever its state."""

    key: str
    path: Path
    state: State
    size: int
    """On disk: bytes in files, tarball and tree."""
    asked_at: datetime
    """When the origin last said so; when the directory last changed where no record tells."""
    record: Record | None
    problem: str = ""


def measure_size(path: Path) -> int:
    """Return the bytes in the files below a directory; symbolic links, the path itself too, are not followed."""
    total = 0
    for _, _, files, directory in os.fwalk(path):
        for name in files:
            try:
                total += os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
            except OSError:  # it went meanwhile
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
    """Return what to remove, oldest first: what is too old, and then what does not fit.

    The ``keep`` youngest stay in any case. What is dated in the future, after a clock was set back, counts as new.
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
