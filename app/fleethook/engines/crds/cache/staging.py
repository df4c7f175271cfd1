"""Staging directories, in which entries are built, and the removal of those that a killed process left."""

import ctypes
import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.engines.crds.cache.locks import try_exclusive
from fleethook.engines.crds.crds_errors import CRDsError
from fleethook.engines.crds.descriptors import DIRECTORY, DIRECTORY_MODE, NO_DIRECTORY, list_names, open_at, remove

_RENAME_EXCHANGE: Final = 2
# Errors of a kernel, C library or file system without the call; other errors are about the two names.
_CANNOT: Final = (errno.ENOSYS, errno.EINVAL, errno.EPERM)


class EntryName(NamedTuple):
    """A name in an open directory."""

    directory: int
    name: str


def exchange(one: EntryName, other: EntryName) -> bool:
    """Exchange two existing names of a file system; returns False, without a change, if the system cannot do that.

    Links are exchanged, not followed.

    Raises:
        OSError: The exchange failed.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(one.directory, os.fsencode(one.name), other.directory, os.fsencode(other.name), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), one.name, None, other.name)


class Staged(NamedTuple):
    """A staging directory."""

    location: EntryName
    """Its parent directory and name."""
    directory: int
    """Its descriptor."""
    path: Path
    """A path that leads through the descriptor, for a download: it cannot be replaced by a link."""


@contextmanager
def create_staging(parent: int, shown: Path) -> Iterator[Staged]:
    """Create an empty directory and remove it after the block.

    The directory is locked during the block, so that `sweep` spares it. A process id would not do: containers that
    share a volume have process ids of their own.

    Args:
        parent: Descriptor of the parent directory.
        shown: Path of ``parent``, for errors.
    """
    name, descriptor = _make_directory(parent)
    # The path has the process id, not /proc/self, so that a child process can read the directory.
    over = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    path = over if over.exists() else shown / name
    try:
        yield Staged(EntryName(parent, name), descriptor, path)
    except CRDsError as error:
        if str(path) not in str(error):
            raise
        # Users know the directory by its path in the cache.
        raise CRDsError(
            error.exit, str(error).replace(str(path), str(shown / name)), transient=error.transient
        ) from error
    finally:
        with suppress(OSError):
            remove(name, parent)
        os.close(descriptor)


def _make_directory(parent: int) -> tuple[str, int]:
    while True:
        name = uuid.uuid4().hex
        os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
        try:
            descriptor = os.open(name, DIRECTORY, dir_fd=parent)
        except FileNotFoundError:  # another process swept it before the lock
            continue
        if try_exclusive(descriptor) and _is_same_directory(name, parent, descriptor):
            return name, descriptor
        os.close(descriptor)


def _is_same_directory(name: str, parent: int, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def sweep(parent: int) -> None:
    """Remove all unlocked content of an open directory; safe in several processes. Links are removed, not followed."""
    for name in list_names(parent):
        with suppress(OSError):
            try:
                with open_at(name, DIRECTORY, parent) as descriptor:
                    if try_exclusive(descriptor):
                        remove(name, parent)
            except OSError as error:
                if error.errno in NO_DIRECTORY:  # staging and trash have directories only
                    os.unlink(name, dir_fd=parent)
