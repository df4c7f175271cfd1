"""Locks of the cache: one writer or many readers, across threads and processes of a machine (flock).

A lock file is opened relative to the descriptor of its directory, which no lock library does. Otherwise a link in its
place would lead the holder's name into another file. The kernel releases a lock when its process ends. Over NFS, flock
works across machines only if the mount supports it.
"""

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import EXISTING, FILE_MODE, write_all

_POLL_SECONDS: Final = 0.02
"""Interval of a waiter: flock has no timeout, and a signal would interrupt the whole process."""
_MAX_HOLDER_BYTES: Final = 512
_NOT_WRITABLE: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


class Lock(NamedTuple):
    """A lock file in an open directory."""

    directory: int
    path: Path
    """The last component is opened in the directory; messages show all of it."""


@contextmanager
def lock_exclusive(lock: Lock, *, seconds: float) -> Iterator[None]:
    """Hold the lock exclusively; the file has the pid and host of the holder, for the messages of waiters.

    Raises:
        CRDsError: LOCKED after ``seconds``; DISK for a link, a hard link or a file that is not regular.
        OSError: The file can be neither opened nor created.
    """
    descriptor = _open(lock, os.O_RDWR | os.O_CREAT)
    try:
        _wait(lock, descriptor, fcntl.LOCK_EX, seconds)
        _write_holder(descriptor, f"pid {os.getpid()} on host {socket.gethostname()}\n")
        try:
            yield
        finally:
            # Waiters would blame a former holder for the locks of readers.
            _write_holder(descriptor, "")
    finally:
        os.close(descriptor)


@contextmanager
def lock_shared(lock: Lock, *, seconds: float) -> Iterator[None]:
    """Share the lock with other readers.

    Without a lock file on a read-only file system there is no lock: such a file system has no writers either.

    Raises:
        CRDsError: LOCKED after ``seconds``; DISK for a link, a hard link or a file that is not regular.
        OSError: The file can be neither opened nor created.
    """
    descriptor = _open_for_reading(lock)
    if descriptor is None:
        yield
        return
    try:
        _wait(lock, descriptor, fcntl.LOCK_SH, seconds)
        yield
    finally:
        os.close(descriptor)


def try_exclusive(descriptor: int) -> bool:
    """Lock an open file or directory exclusively until it is closed; returns False if another process holds it."""
    return _try_lock(descriptor, fcntl.LOCK_EX)


def _wait(lock: Lock, descriptor: int, kind: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _try_lock(descriptor, kind):
        if time.monotonic() >= deadline:
            holder = os.pread(descriptor, _MAX_HOLDER_BYTES, 0).decode(errors="replace").strip() or "readers"
            text = f"{lock.path} is held by {holder}; waited {seconds:g} s"
            raise CRDsError(Exit.LOCKED, text, transient=True)
        time.sleep(_POLL_SECONDS)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor: int, text: str) -> None:
    with suppress(OSError):  # the name is informative only, so a full disk does not prevent the lock
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, text.encode())


def _open_for_reading(lock: Lock) -> int | None:
    try:
        return _open(lock, os.O_RDONLY | os.O_CREAT)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
    try:
        return _open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _open(lock: Lock, flags: int) -> int:
    try:
        descriptor = os.open(lock.path.name, EXISTING | flags, FILE_MODE, dir_fd=lock.directory)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _make_refusal(lock, "is a symbolic link") from None
    status = os.fstat(descriptor)
    # Writing the holder's name into a hard link would truncate another file.
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise _make_refusal(lock, "has a hard link" if stat.S_ISREG(status.st_mode) else "is not a regular file")


def _make_refusal(lock: Lock, wrong: str) -> CRDsError:
    return CRDsError(Exit.DISK, f"{lock.path} {wrong}: refused; remove it")
