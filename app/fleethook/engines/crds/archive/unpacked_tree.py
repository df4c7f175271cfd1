"""Writes unpacked files relative to descriptors, without following links, and compares them with a manifest."""

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.crd_content import REQUIRED
from fleethook.engines.crds.archive.entry_names import TOP
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import (
    DIRECTORY,
    DIRECTORY_MODE,
    EXISTING,
    FILE_MODE,
    NEW,
    NO_DIRECTORY,
    Directory,
    open_at,
    open_directory_at,
    open_parent,
    write_all,
)


class FileDigest(NamedTuple):
    """One regular file."""

    size: int
    sha256: str


class Manifest(NamedTuple):
    """A tarball, and the files in it."""

    sha256: str
    """Digest of the tarball as downloaded, hexadecimal."""
    size: int
    """Size of the tarball in bytes."""
    files: Mapping[str, FileDigest]
    """Files by path below the cache entry, such as ``crds/bases/…``."""
    warnings: tuple[str, ...] = ()
    operator_problems: tuple[str, ...] = ()
    """Reasons why Karmada's operator cannot use the tarball."""


_PIECE: Final = 64 * 1024


class Written(NamedTuple):
    """A file to write, with its path below the directory; the path is checked and has no dot components."""

    path: str
    body: bytes
    mtime: int


def write_tree(into: Directory, directories: Collection[str], files: Iterable[Written]) -> None:
    """Write new directories and files below an existing directory, and sync them to disk.

    Raises:
        CRDsError: DISK if a path exists or cannot be written; the written files stay.
    """
    try:
        with open_directory_at(into) as root:
            ordered = sorted(directories)
            for directory in ordered:
                with open_parent(root, directory) as (parent, name):
                    os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
            paths = [_write(root, file) for file in files]
            # Synced last and together: the first fsync makes the file system write most of the others' data too.
            for path in paths:
                _sync(root, path, EXISTING)
            for directory in reversed(ordered):
                _sync(root, directory, DIRECTORY)
            os.fsync(root)
    except OSError as error:
        where = "the cache" if isinstance(into, int) else into
        raise CRDsError(Exit.DISK, f"cannot unpack into {where}: {error.strerror or error}") from error


def verify_tree(directory: Directory, manifest: Manifest, *, required: Collection[str] = REQUIRED) -> list[str]:
    """Return the differences of ``crds/`` in a directory from the manifest, one line each, sorted by path.

    Raises:
        CRDsError: DISK if a file cannot be read.
    """
    files = manifest.files
    try:
        with open_directory_at(directory) as root:
            missing = [f"{path} is missing" for path in required if not _is_directory(root, path)]
            found = set(_walk(root, TOP))
            lines = {path: "is missing" for path in files if path not in found}
            lines |= {path: "does not belong there" for path in found if path not in files}
            for path in found & files.keys():
                if difference := _compare_file(root, path, files[path]):
                    lines[path] = difference
    except OSError as error:
        where = "the cache" if isinstance(directory, int) else directory
        raise CRDsError(Exit.DISK, f"cannot read {where}: {error.strerror or error}") from error
    return missing + [f"{path} {lines[path]}" for path in sorted(lines)]


def _write(root: int, file: Written) -> str:
    with open_parent(root, file.path) as (parent, name), open_at(name, NEW, parent) as descriptor:
        write_all(descriptor, file.body)
        os.fchmod(descriptor, FILE_MODE)  # independent of the umask
        os.utime(descriptor, (file.mtime, file.mtime))
    return file.path


def _sync(root: int, path: str, flags: int) -> None:
    with open_parent(root, path) as (parent, name), open_at(name, flags, parent) as descriptor:
        os.fsync(descriptor)


def _is_directory(root: int, path: str) -> bool:
    try:
        with open_parent(root, path) as (parent, name), open_at(name, DIRECTORY, parent):
            return True
    except OSError as error:
        if error.errno not in (*NO_DIRECTORY, errno.ENOENT):
            raise
        return False


def _walk(root: int, top: str) -> Iterator[str]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            with open_parent(root, path) as (parent, name), open_at(name, DIRECTORY, parent) as descriptor:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(descriptor)]
        except OSError as error:
            if error.errno not in (*NO_DIRECTORY, errno.ENOENT):
                raise
            continue
        for name, is_directory in entries:
            below = f"{path}/{name}"
            if is_directory:
                waiting.append(below)
            else:
                yield below


def _compare_file(root: int, path: str, expected: FileDigest) -> str:
    with open_parent(root, path) as (parent, name):
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return "is not a regular file"
        with open_at(name, EXISTING, parent) as descriptor:
            size = os.fstat(descriptor).st_size
            if size != expected.size:
                return f"has {size} bytes instead of {expected.size}"
            digest = hashlib.sha256()
            while piece := os.read(descriptor, _PIECE):
                digest.update(piece)
    return "" if digest.hexdigest() == expected.sha256 else "has other content"
