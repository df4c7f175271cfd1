"""Files and directories opened relative to a descriptor of their directory, as openat(2) does.

The kernel looks a path up anew at each use, and another process may replace one of its directories by a link meanwhile.
A descriptor stays with the directory that was opened.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
EXISTING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK, because opening a named pipe would wait for a writer."""
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o700
# Errors of the kernel for opening a link or a file with the flags of DIRECTORY.
NO_DIRECTORY: Final = (errno.ELOOP, errno.ENOTDIR)
_MAX_DEPTH: Final = 200
"""Depth of directories to remove; each level takes a descriptor. A tarball may have 16 levels."""

Directory = int | Path
"""A descriptor of an open directory, or a path whose last component must not be a link."""


@contextmanager
def open_at(path: str | Path, flags: int, parent: int | None = None) -> Iterator[int]:
    """Open a file or directory relative to ``parent``, and close it after the block; raises OSError."""
    descriptor = os.open(path, flags, FILE_MODE, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_directory_at(directory: Directory) -> Iterator[int]:
    """Open a directory, or duplicate an open one, and close it after the block; raises OSError."""
    path, parent = (".", directory) if isinstance(directory, int) else (directory, None)
    with open_at(path, DIRECTORY, parent) as descriptor:
        yield descriptor


@contextmanager
def open_parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the parent directory of a path below ``root``; yields it and the last component.

    No component of the path may be a link.
    """
    *parents, name = path.split("/")
    with ExitStack() as stack:
        descriptor = root
        for component in parents:
            descriptor = stack.enter_context(open_at(component, DIRECTORY, descriptor))
        yield descriptor, name


def read_regular(path: str | Path, parent: int | None = None, *, most: int, follow: bool = False) -> bytes:
    """Return the bytes of a regular file, without waiting for a pipe or reading from a device.

    Args:
        path: The file.
        parent: The open directory that ``path`` is relative to.
        most: The largest size in bytes. A file with a larger size in its metadata is not read.
        follow: Follow a link. Only for files that a user named, never for files in the cache.

    Raises:
        OSError: EINVAL if the file is not regular, EFBIG if it has more than ``most`` bytes.
    """
    with open_at(path, EXISTING & ~os.O_NOFOLLOW if follow else EXISTING, parent) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # The size is checked first, so that a sparse file is not read, and then the length: the file may grow
        # meanwhile.
        if status.st_size <= most:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
            if len(data) <= most:
                return data
        raise OSError(errno.EFBIG, f"more than {most} bytes", str(path))


def write_new(name: str, parent: int, data: bytes) -> None:
    """Write a new file and sync it to disk; raises OSError, also if the name exists."""
    with open_at(name, NEW, parent) as descriptor:
        write_all(descriptor, data)
        os.fsync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def exists(name: str, parent: int) -> bool:
    """Return whether a name exists in a directory, a dangling link included."""
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def list_names(directory: int) -> list[str]:
    """Return the names in an open directory; raises OSError."""
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def remove(name: str, parent: int, *, depth: int = 0) -> None:
    """Remove a file, a link, or a directory and its content; a missing name is no error.

    Raises:
        OSError: A file cannot be removed; EMFILE for more than 200 levels of directories.
    """
    if depth > _MAX_DEPTH:
        raise OSError(errno.EMFILE, f"more than {_MAX_DEPTH} levels of directories", name)
    with suppress(FileNotFoundError):
        try:
            with open_at(name, DIRECTORY, parent) as descriptor:
                for below in list_names(descriptor):
                    remove(below, descriptor, depth=depth + 1)
        except OSError as error:
            if error.errno not in NO_DIRECTORY:
                raise
            os.unlink(name, dir_fd=parent)
        else:
            os.rmdir(name, dir_fd=parent)
