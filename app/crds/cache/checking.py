"""Whether an entry is what its record says: by how it looks, and by what is in it."""

import os
from pathlib import Path
from typing import Final

from app.crds.archive.archive import FileDigest, Manifest, verify_tree
from app.crds.cache.guard import entry_exists, on_disk
from app.crds.cache.record import TARBALL, Record, digest_of, read_record, unchanged

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def recorded(path: Path) -> tuple[Record | None, bool]:
    """Return an entry's record, and whether the entry looks as it did then; all through one descriptor.

    So of an entry that is replaced meanwhile one state is seen, and not a mixture.

    Raises:
        CRDsError: DISK for what is refused (`entry_exists`) or cannot be opened.
    """
    if not entry_exists(path):
        return None, False
    with on_disk("opening the entry"):
        try:
            directory = os.open(path, _DIRECTORY)
        except FileNotFoundError:  # it went meanwhile
            return None, False
    try:
        record = read_record(directory)
        return record, record is not None and unchanged(directory, record.seen)
    finally:
        os.close(directory)


def problems_of(path: Path, record: Record, *, most: int) -> list[str]:
    """Read all of an entry and return what is not as recorded; a tarball of more than ``most`` bytes is not.

    Raises:
        CRDsError: DISK when something cannot be read.
    """
    problems = [] if digest_of(path / TARBALL, most=most) == record.sha256 else [f"{TARBALL} is not the recorded one"]
    return problems + tree_problems(path, record)


def tree_problems(path: Path, record: Record) -> list[str]:
    """Return what of an entry's tree is not as recorded; raises CRDsError DISK when it cannot be read."""
    files = {name: FileDigest(file.size, file.sha256) for name, file in record.manifest.items()}
    return verify_tree(path, Manifest(record.sha256, record.size, files, record.warnings))
