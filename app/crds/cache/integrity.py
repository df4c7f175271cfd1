"""Compares an entry with its record, by its bytes."""

import errno
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from app.crds.archive.archive import list_files, verify_tree
from app.crds.archive.limits import Limits
from app.crds.cache.metadata import TARBALL, Record, read_record
from app.crds.cache.permissions import translate_os_errors
from app.crds.descriptors import exists, read_regular
from app.crds.failures import CRDsError, Exit


class Checked(NamedTuple):
    """An entry that has been read."""

    record: Record | None
    tarball: bytes
    """Its bytes; empty if they are not those that the record has the digest of."""
    problems: Sequence[str]
    """The problems, one line each."""


def read_tarball(directory: int, limits: Limits) -> bytes:
    """Return the bytes of the tarball in an open directory; raises OSError, and CRDsError LIMIT for too many."""
    try:
        return read_regular(TARBALL, directory, most=limits.download_bytes)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        raise CRDsError(Exit.LIMIT, f"the tarball has more than {limits.download_bytes} bytes") from None


def check_entry(directory: int, limits: Limits) -> Checked:
    """Read all of the entry open as ``directory``: its tarball against its record, its tree against its tarball.

    The tree is compared with the files in the tarball, and not with what the record says of them, so that no change of
    both passes. That takes some 10 ms for a release.

    Raises:
        CRDsError: DISK when the tree cannot be read.
    """
    record = read_record(directory)
    if record is None:
        return Checked(None, b"", ["there is no record of it"])
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


def find_tree_problems(directory: int, tree: str, tarball: bytes, limits: Limits, *, normalize_dot: bool) -> list[str]:
    """Return what of an entry's tree is not as in a tarball; nothing if there is no tree. Raises CRDsError."""
    with translate_os_errors("looking at the cache"):
        if not exists(tree, directory):
            return []
    return verify_tree(directory, list_files(tarball, limits=limits, normalize_dot=normalize_dot))
