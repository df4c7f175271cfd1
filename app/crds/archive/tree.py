"""Unpacked files: written relative to descriptors, so that no link leads elsewhere, and compared with digests."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from app.crds.archive.manifest import FileDigest
from app.crds.failures import CRDsError, Exit

_FILE_MODE: Final = 0o640
_DIRECTORY_MODE: Final = 0o700
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXISTING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE: Final = 64 * 1024


class Written(NamedTuple):
    """A file to write: its path below the directory, checked, without dots."""

    path: str
    body: bytes
    mtime: int


def write_tree(into: Path, directories: Collection[str], files: Iterable[Written]) -> None:
    """Write the directories and files below an existing directory, all new and all on disk when it returns.

    Raises:
        CRDsError: DISK when anything is there already or cannot be written; what has been written stays.
    """
    try:
        with _opened(into, _DIRECTORY) as root:
            ordered = sorted(directories)
            for directory in ordered:
                with _parent(root, directory) as (parent, name):
                    os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
            paths = [_write(root, file) for file in files]
            # Last, and together: the first makes the file system write what the others then find written.
            for path in paths:
                _sync(root, path, _EXISTING)
            for directory in reversed(ordered):
                _sync(root, directory, _DIRECTORY)
            os.fsync(root)
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot unpack into {into}: {error.strerror or error}") from error


def differences(directory: Path, files: Mapping[str, FileDigest], *, top: str) -> list[str]:
    """Return what below ``directory/top`` is not what the digests say, one line each, sorted by path.

    Raises:
        CRDsError: DISK when something cannot be read.
    """
    try:
        with _opened(directory, _DIRECTORY) as root:
            found = set(_walk(root, top))
            lines = {path: "is missing" for path in files if path not in found}
            lines |= {path: "does not belong there" for path in found if path not in files}
            for path in found & files.keys():
                if difference := _difference(root, path, files[path]):
                    lines[path] = difference
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot look at {directory}: {error.strerror or error}") from error
    return [f"{path} {lines[path]}" for path in sorted(lines)]


def _write(root: int, file: Written) -> str:
    with _parent(root, file.path) as (parent, name), _opened(name, _NEW, parent) as descriptor:
        body = memoryview(file.body)
        while body:
            body = body[os.write(descriptor, body) :]
        os.fchmod(descriptor, _FILE_MODE)  # whatever the umask
        os.utime(descriptor, (file.mtime, file.mtime))
    return file.path


def _sync(root: int, path: str, flags: int) -> None:
    with _parent(root, path) as (parent, name), _opened(name, flags, parent) as descriptor:
        os.fsync(descriptor)


def _walk(root: int, top: str) -> Iterator[str]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            with _parent(root, path) as (parent, name), _opened(name, _DIRECTORY, parent) as descriptor:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(descriptor)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        for name, is_directory in entries:
            below = f"{path}/{name}"
            if is_directory:
                waiting.append(below)
            else:
                yield below


def _difference(root: int, path: str, expected: FileDigest) -> str:
    with contextlib.ExitStack() as stack:
        parent, name = stack.enter_context(_parent(root, path))
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return "is not a regular file"
        descriptor = stack.enter_context(_opened(name, _EXISTING, parent))
        size = os.fstat(descriptor).st_size
        if size != expected.size:
            return f"has {size} bytes instead of {expected.size}"
        digest = hashlib.sha256()
        while piece := os.read(descriptor, _PIECE):
            digest.update(piece)
    return "" if digest.hexdigest() == expected.sha256 else "has other content"


@contextlib.contextmanager
def _opened(path: str | Path, flags: int, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, _FILE_MODE, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the directory of a path, no component of which may be a link, and give the last component beside it."""
    *parents, name = path.split("/")
    with contextlib.ExitStack() as stack:
        descriptor = root
        for component in parents:
            descriptor = stack.enter_context(_opened(component, _DIRECTORY, descriptor))
        yield descriptor, name
