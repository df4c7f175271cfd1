"""Locks of the cache: one writer or many readers of a file, among threads and processes of a machine (flock).

Exclusive locks are filelock's; readers take ``LOCK_SH`` on the same file, which filelock has not. The kernel drops
either when its process dies. Over NFS, flock holds among machines only where the mount passes it on.
"""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from app.crds.failures import CRDsError, Exit

_POLL_SECONDS: Final = 0.02
"""How often a waiter looks: flock has no waiting with a deadline, and a signal would be the process's."""
_MOST_HOLDER_BYTES: Final = 512
_NOT_WRITABLE: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


def _holder(path: Path) -> str:
    """Return who wrote itself into the lock file; readers do not."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_HOLDER_BYTES).decode(errors="replace").strip()
    except OSError:
        text = ""
    return text or "readers"


def _locked(path: Path, seconds: float) -> CRDsError:
    text = f"{path} is held by {_holder(path)}; waited {seconds:g} s"
    return CRDsError(Exit.LOCKED, text, transient=True)


@contextmanager
def exclusive(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock alone; whoever waits for it meanwhile can read our pid and host in the file.

    Raises:
        CRDsError: LOCKED after ``seconds``.
        OSError: The file can be neither opened nor made.
    """
    # Not the soft lock that filelock falls back to: readers would not see it.
    lock = FileLock(path, timeout=seconds, mode=0o640, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(poll_interval=_POLL_SECONDS)
    except Timeout:
        raise _locked(path, seconds) from None
    try:
        _name_holder(path, f"pid {os.getpid()} on host {socket.gethostname()}\n")
        yield
    finally:
        # A name left behind would blame the dead for what readers hold.
        _name_holder(path, "")
        lock.release()


def _name_holder(path: Path, text: str) -> None:
    with suppress(OSError):  # a full disk must not keep anybody from locking: the name is for people
        path.write_text(text)


@contextmanager
def shared(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock together with other readers.

    A file that is not there on a file system that cannot be written to locks out nobody, and needs not to.

    Raises:
        CRDsError: LOCKED after ``seconds``.
        OSError: The file can be neither opened nor made.
    """
    descriptor = _opened_for_reading(path)
    if descriptor is None:
        yield
        return
    try:
        deadline = time.monotonic() + seconds
        while not _try(descriptor, fcntl.LOCK_SH):
            if time.monotonic() >= deadline:
                raise _locked(path, seconds)
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Hold the lock alone if that needs no waiting and the file system lets us; tells whether."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    except OSError:
        yield False
        return
    try:
        yield _try(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def try_exclusive(descriptor: int) -> bool:
    """Lock an open file or directory alone until it is closed; tells whether nobody else had it."""
    return _try(descriptor, fcntl.LOCK_EX)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _opened_for_reading(path: Path) -> int | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_CREAT, 0o640)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return None
