"""Files and directories opened relative to a descriptor of their directory, so that no link leads elsewhere.

A path is looked up anew at each use, and somebody may put a link in the place of one of its directories meanwhile. A
descriptor stays with the directory that was opened.
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
"""Without waiting: opening a named pipe would wait until somebody writes to it."""
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o700
# The kernel's errors for a link, and for a file, where a directory was to be opened without following links.
NO_DIRECTORY: Final = (errno.ELOOP, errno.ENOTDIR)
_MAX_DEPTH: Final = 200
"""Of directories to remove, each of which is a descriptor meanwhile; a tarball may have 16."""

Directory = int | Path
"""A directory: open, or to be opened, in which case its last component must not be a link."""


@contextmanager
def open_at(path: str | Path, flags: int, parent: int | None = None) -> Iterator[int]:
    """Open a file or directory, relative to ``parent``, for as long as the block runs; raises OSError."""
    descriptor = os.open(path, flags, FILE_MODE, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_directory_at(directory: Directory) -> Iterator[int]:
    """Open a directory for as long as the block runs, also one that is open already; raises OSError."""
    path, parent = (".", directory) if isinstance(directory, int) else (directory, None)
    with open_at(path, DIRECTORY, parent) as descriptor:
        yield descriptor


@contextmanager
def open_parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the directory of a path below ``root``, none of whose components may be a link; gives the last one too."""
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
        most: How many bytes there may be. A file that says that it has more is not read.
        follow: Follow a link: for files that a user named, and for none in the cache.

    Raises:
        OSError: EINVAL for other files than regular ones, EFBIG beyond ``most``.
    """
    with open_at(path, EXISTING & ~os.O_NOFOLLOW if follow else EXISTING, parent) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # The size first: of a sparse file nothing is read. The length too: the file may grow meanwhile.
        if status.st_size <= most:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
            if len(data) <= most:
                return data
        raise OSError(errno.EFBIG, f"more than {most} bytes", str(path))


def write_new(name: str, parent: int, data: bytes) -> None:
    """Write a new file, on disk when this returns; raises OSError, also where there is one already."""
    with open_at(name, NEW, parent) as descriptor:
        write_all(descriptor, data)
        os.fsync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def exists(name: str, parent: int) -> bool:
    """Tell whether there is something of that name, also a link that leads nowhere."""
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
    """Remove a file, a link or a directory with all that is in it; a name that is gone already is no error.

    Raises:
        OSError: Something cannot be removed; EMFILE for more than 200 levels of directories.
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
