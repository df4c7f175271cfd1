"""The directories of the cache: its locks, its staging directories, and the atomic swap of an entry.

Each operation opens the directory of the cache once, and all other files relative to that descriptor, without following
links.

Each key has two locks. The download lock (``.fetch.lock``) lets one process download while others wait. The entry lock
(``.lock``) is shared by readers and held exclusively only while the directory is swapped, never during network I/O.

A lock (flock) has one writer or many readers, across threads and processes of a machine. Its file is opened relative to
the descriptor of its directory, which no lock library does. Otherwise a link in its place could redirect the holder's
name to a different file. The kernel releases a lock when its process ends. Over NFS, flock works across machines only
if the mount supports it.
"""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from fleethook.engines.crds.cache.cache_entry import is_key, open_directory, open_entry, translate_os_errors
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import (
    DIRECTORY,
    DIRECTORY_MODE,
    EXISTING,
    FILE_MODE,
    NO_DIRECTORY,
    exists,
    list_names,
    open_at,
    remove,
    write_all,
)

_POLL_SECONDS: Final = 0.02
"""Interval of a waiter: flock has no timeout, and a signal would interrupt the whole process."""
_MAX_HOLDER_BYTES: Final = 512
_NOT_WRITABLE: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


class Lock(NamedTuple):
    """A lock file in an open directory."""

    directory: int
    path: Path
    """The path for messages. Only its last component is opened, in the directory."""


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
            # Otherwise, processes that wait for readers would report this process as the holder.
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

    The directory is locked during the block, so that `sweep` spares it. A process id is not enough: containers that
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


def find_data_directory() -> Path:
    """Return the data directory of the user, whether or not it exists."""
    return Path(platformdirs.user_data_dir("fleethook"))


LOCK_SECONDS: Final = 300.0
"""The default limit of a download: a waiter outlasts the download it waits for."""
_LOCKS: Final = ".locks"
_STAGING: Final = ".staging"
_TRASH: Final = ".trash"


class Layout:
    """``<root>/cache``: a directory for each key, and ``.locks``, ``.staging`` and ``.trash``."""

    def __init__(self, root: Path) -> None:
        """Configure the layout; the first write creates the directories."""
        self.directory: Final = root / "cache"

    def path(self, key: str) -> Path:
        """Return the path of an entry, whether or not it exists; raises CRDsError USAGE for an invalid key."""
        if not is_key(key):
            raise CRDsError(Exit.USAGE, f"{key!r} is not a key of the cache: a key has 64 hexadecimal digits")
        return self.directory / key

    def keys(self) -> list[str]:
        """Return the keys of all entries in any state, sorted; raises CRDsError DISK."""
        with translate_os_errors("listing the cache"), self._open_root() as root:
            return [] if root is None else sorted(filter(is_key, list_names(root)))

    def exists(self, key: str) -> bool:
        """Return whether an entry's path exists, of any file type; raises CRDsError DISK."""
        name = self.path(key).name
        with translate_os_errors("reading the cache"), self._open_root() as root:
            return root is not None and exists(name, root)

    @contextmanager
    def open_entry_directory(self, key: str) -> Iterator[int | None]:
        """Open the directory of an entry, and close it after the block; yields None if it does not exist.

        If the entry is replaced meanwhile, the block sees the files of the former one, or that they are gone: never
        those of the new one. `reading` keeps the entry unchanged.

        Raises:
            CRDsError: DISK for a directory that is refused (`open_entry`) or cannot be opened.
        """
        path = self.path(key)
        with ExitStack() as held:
            with translate_os_errors("reading the cache"):
                root = held.enter_context(self._open_root())
            entry = None if root is None else open_entry(path, root)
            if entry is not None:
                held.callback(os.close, entry)
            yield entry

    @contextmanager
    def lock(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the download lock of an entry; raises CRDsError LOCKED (the message names the holder) or DISK."""
        with ExitStack() as held:
            with translate_os_errors("locking the cache"):
                root = held.enter_context(self._open_ensured())
                held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".fetch.lock"), seconds=seconds))
            yield

    @contextmanager
    def reading(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Share the entry lock, so that the entry stays unchanged during the block; raises CRDsError LOCKED or DISK.

        Do not fetch the same entry within the block: the fetch would wait for this lock.
        """
        with ExitStack() as held:
            with translate_os_errors("locking the cache"):
                with suppress(OSError):  # a read-only cache may have the directories already
                    self._make_directories()
                root = held.enter_context(self._open_root())
                if root is not None and exists(_LOCKS, root):
                    held.enter_context(lock_shared(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            yield

    @contextmanager
    def staging(self) -> Iterator[Staged]:
        """Create an empty directory on the cache's file system; after the block it is removed if it is still there."""
        with ExitStack() as held:
            with translate_os_errors("preparing the cache"):
                root = held.enter_context(self._open_ensured())
                parent, trash = (self._open_subdirectory(held, root, name) for name in (_STAGING, _TRASH))
                sweep(parent)
                sweep(trash)
                staged = held.enter_context(create_staging(parent, self.directory / _STAGING))
            yield staged

    def put(self, key: str, staged: Staged, *, seconds: float = LOCK_SECONDS) -> None:
        """Replace an entry by a directory of `staging`, and sync the change to disk.

        The caller holds `lock`.

        Raises:
            CRDsError: LOCKED while it is read; DISK.
        """
        with ExitStack() as held:
            held.enter_context(translate_os_errors(f"replacing {key}"))
            root = held.enter_context(self._open_ensured())
            held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            target = EntryName(root, key)
            if not exists(key, root):
                _rename(staged.location, target)
            elif not exchange(staged.location, target):
                # A crash between the two renames leaves no entry: a cache miss, never a mixture.
                _rename(target, EntryName(self._open_subdirectory(held, root, _TRASH), uuid.uuid4().hex))
                _rename(staged.location, target)
            os.fsync(root)

    def remove(self, key: str, *, seconds: float = LOCK_SECONDS) -> bool:
        """Remove the entry, of any file type; returns False if it does not exist. Raises CRDsError LOCKED or DISK."""
        if not self.exists(key):
            return False
        with self.lock(key, seconds), translate_os_errors(f"removing {key}"), ExitStack() as held:
            root = held.enter_context(self._open_ensured())
            held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            if not exists(key, root):
                return False
            trash = self._open_subdirectory(held, root, _TRASH)
            _rename(EntryName(root, key), EntryName(trash, uuid.uuid4().hex))
            os.fsync(root)
            sweep(trash)
        return True

    def _open_lock(self, held: ExitStack, root: int, key: str, suffix: str) -> Lock:
        """Return a lock of the entry: ``.fetch.lock`` (download lock) or ``.lock`` (entry lock)."""
        return Lock(
            self._open_subdirectory(held, root, _LOCKS), self.directory / _LOCKS / f"{self.path(key).name}{suffix}"
        )

    @contextmanager
    def _open_ensured(self) -> Iterator[int]:
        """Create the directories of the cache if necessary, and open its root."""
        self._make_directories()
        with self._open_root() as root:
            if root is None:
                raise FileNotFoundError(2, "the directory was removed meanwhile", str(self.directory))
            yield root

    @contextmanager
    def _open_root(self) -> Iterator[int | None]:
        root = open_directory(self.directory)
        try:
            yield root
        finally:
            if root is not None:
                os.close(root)

    def _make_directories(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.directory.mkdir(DIRECTORY_MODE)
        with self._open_root() as root:
            for name in (_LOCKS, _STAGING, _TRASH) if root is not None else ():
                with suppress(FileExistsError):
                    os.mkdir(name, DIRECTORY_MODE, dir_fd=root)

    def _open_subdirectory(self, held: ExitStack, root: int, name: str) -> int:
        descriptor = open_directory(self.directory / name, root)
        if descriptor is None:
            raise FileNotFoundError(2, "the directory was removed meanwhile", str(self.directory / name))
        held.callback(os.close, descriptor)
        return descriptor


def _rename(one: EntryName, other: EntryName) -> None:
    os.rename(one.name, other.name, src_dir_fd=one.directory, dst_dir_fd=other.directory)
