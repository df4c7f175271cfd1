"""CRD tarballs: that one is what it should be, and taking it apart (research 6.5).

A tarball is read forward and verified to its end before anything is written. The files of a
release are kept until then; of a larger tarball memory holds one at a time, and it is read once more to be written.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from app.crds.archive import tar
from app.crds.archive.content import REQUIRED, Content
from app.crds.archive.inflate import Inflated
from app.crds.archive.limits import LIMITS, Limits
from app.crds.archive.manifest import FileDigest, Manifest
from app.crds.archive.names import TOP, Names
from app.crds.archive.tree import Written, differences, write_tree
from app.crds.failures import CRDsError, Exit

__all__ = ["FileDigest", "Manifest", "unpack", "verify", "verify_tree"]


_KEPT_BYTES: Final = 4 * 1024 * 1024  # five times what a release has


class _Opened(NamedTuple):
    file: BinaryIO
    size: int


class _Verified(NamedTuple):
    manifest: Manifest
    kept: list[Written] | None
    """The files, None if there are too many bytes of them."""


def verify(tarball: Path, *, limits: Limits = LIMITS, strict: bool = False, normalize_dot: bool = False) -> Manifest:
    """Read a tarball to its end and tell what is in it.

    Arguments:
        tarball: A regular file; only read.
        limits: How large it may be.
        strict: Take a warning for an error.
        normalize_dot: Take ``./crds/…`` for ``crds/…``; upstream refuses it.

    Raises:
        CRDsError: INTEGRITY when it is cut or damaged, ARCHIVE when something in it may not be there or is missing,
            LIMIT when it is too large, DISK when it cannot be read.
    """
    with _opened(tarball, limits) as opened:
        return _verified(opened, limits, Names(normalize_dot=normalize_dot), strict=strict, keep=0).manifest


def unpack(
    tarball: Path, into: Path, *, limits: Limits = LIMITS, strict: bool = False, normalize_dot: bool = False
) -> Manifest:
    """Verify a tarball, and only then write ``crds/`` with all that is in it, and on disk when this returns.

    Arguments:
        tarball: A regular file.
        into: An existing directory without a ``crds``; what was written stays there when writing fails.
        limits: How large it may be.
        strict: Take a warning for an error.
        normalize_dot: Take ``./crds/…`` for ``crds/…``, which is where it is written.

    Raises:
        CRDsError: As ``verify``, and DISK when it cannot be written, INTEGRITY when the tarball changes meanwhile.
    """
    with _opened(tarball, limits) as opened:
        names = Names(normalize_dot=normalize_dot)
        found = _verified(opened, limits, names, strict=strict, keep=_KEPT_BYTES)
        files = _again(opened, found.manifest, limits, names) if found.kept is None else found.kept
        write_tree(into, names.directories, files)
    return found.manifest


def verify_tree(directory: Path, manifest: Manifest) -> list[str]:
    """Tell what of ``crds/`` in a directory is not as the manifest has it: one line each, none when all is well.

    Raises:
        CRDsError: DISK when it cannot be read.
    """
    missing = [f"{path} is missing" for path in REQUIRED if not (directory / path).is_dir()]
    return missing + differences(directory, manifest.files, top=TOP)


def _verified(opened: _Opened, limits: Limits, names: Names, *, strict: bool, keep: int) -> _Verified:
    inflated = Inflated(opened.file, packed=opened.size, limits=limits)
    content = Content(limits)
    files: dict[str, FileDigest] = {}
    kept: list[Written] | None = []
    try:
        for entry in tar.entries(inflated.take, limits):
            if entry.kind == tar.PAX_GLOBAL:
                continue
            path = names.admit(entry)
            if entry.kind == tar.FILE:
                files[path] = _digest(entry.body)
                content.add(path, entry.body)
                keep -= len(entry.body)
                kept = None if kept is None or keep < 0 else [*kept, Written(path, entry.body, entry.mtime)]
        warnings = content.finish(names.directories)
    except CRDsError:
        # What is damaged is reported as that, and not as what the damage happens to look like.
        inflated.drain()
        raise
    if strict and warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(warnings))
    return _Verified(Manifest(inflated.sha256.hexdigest(), opened.size, files, warnings), kept)


def _again(opened: _Opened, manifest: Manifest, limits: Limits, names: Names) -> Iterator[Written]:
    opened.file.seek(0)
    inflated = Inflated(opened.file, packed=opened.size, limits=limits)
    for entry in tar.entries(inflated.take, limits):
        if entry.kind == tar.FILE:
            path = names.path_of(entry.name)
            if manifest.files.get(path) != _digest(entry.body):
                raise CRDsError(Exit.INTEGRITY, f"the tarball changed while it was being read: {entry.name!r}")
            yield Written(path, entry.body, entry.mtime)


def _digest(body: bytes) -> FileDigest:
    return FileDigest(len(body), hashlib.sha256(body).hexdigest())


@contextlib.contextmanager
def _opened(tarball: Path, limits: Limits) -> Iterator[_Opened]:
    try:
        # Without waiting: opening a named pipe would, until somebody writes to it.
        with os.fdopen(os.open(tarball, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CRDsError(Exit.DISK, f"{tarball} is not a regular file")
            if found.st_size > limits.download_bytes:
                raise CRDsError(Exit.LIMIT, f"{tarball} has {found.st_size} bytes, more than {limits.download_bytes}")
            yield _Opened(file, found.st_size)
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot read {tarball}: {error.strerror or error}") from error
