"""The files of a recording: gzip files of one writer in a directory that several writers share.

The module asks the kernel for files relative to the open directory, and follows no symbolic link in it: another user of
the directory must not be able to redirect a write or a deletion.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

import msgspec
from isal import isal_zlib

from fleethook import __version__
from fleethook.recordings.recording_format import FILE_NAME, FORMAT, Header, name_file

_MAX_FILE_BYTES: Final = 64 << 20
# The current files of all writers have at most 1/8 of the maximum size, because open files are not deleted.
_FILES_PER_DIRECTORY: Final = 8
# Measured with reviews of Deployments: 2 GB/s, like level 0, and 5 % of the size. zlib reaches 0.26 GB/s at level 1.
_LEVEL: Final = 1
# The end of a file: an empty block, the checksum and the length.
_END_BYTES: Final = 64
_GZIP: Final = 31
_LOCK_ATTEMPTS: Final = 50
_LOCK_SECONDS: Final = 0.01


class _File(NamedTuple):
    """A file of the recording."""

    changed: int
    name: str
    size: int


class RecordFiles:
    """Writes blocks of lines, begins a new file when one is full, and deletes the oldest files of all writers.

    Attributes:
        written: The bytes that were written.
    """

    def __init__(self, directory: Path, *, max_bytes: int, writers: int = 1) -> None:
        """Open the directory, and create it with mode 0700 if it does not exist; `start` begins the first file.

        Args:
            directory: The directory.
            max_bytes: The maximum size of all files of recordings in the directory together.
            writers: The number of processes that write to it.

        Raises:
            OSError: The directory cannot be created or opened.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory: Final = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._max_bytes: Final = max_bytes
        self._file_bytes: Final = min(_MAX_FILE_BYTES, max_bytes // (_FILES_PER_DIRECTORY * writers))
        self._start: Final = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._writer: Final = secrets.token_hex(4)
        self._number = 0
        self._descriptor = -1
        self._size = 0
        self._compressor = _make_compressor()
        self._header = b""
        self._has_lines = False
        self.written = 0

    def start(self) -> Self:
        """Begin the first file, to find out early that the directory cannot be written to; raises OSError."""
        if self._descriptor < 0:
            self.write(b"")
        return self

    def write(self, lines: bytes) -> None:
        """Write lines as a complete block, so that a reader can decompress them even if this process is killed.

        Raises:
            OSError: The lines could not be written. Later lines go to a new file.
        """
        try:
            if self._descriptor < 0:
                self._begin_file()
            block = self._compressor.compress(self._header + lines) + self._compressor.flush(isal_zlib.Z_SYNC_FLUSH)
            self._header = b""
            with self._lock_directory():
                self._make_room(len(block) + _END_BYTES)
                self._write_all(block)
            self._has_lines = self._has_lines or bool(lines)
        except OSError:
            self._abandon()
            raise
        if self._size >= self._file_bytes:
            self.close_file()

    def close_file(self) -> None:
        """End the current file, and delete it if it has no lines; raises OSError."""
        if self._descriptor < 0:
            return
        try:
            if self._has_lines:
                self._write_all(self._compressor.flush())
            else:
                os.unlink(name_file(self._start, self._writer, self._number), dir_fd=self._directory)
        finally:
            self._abandon()

    def close(self) -> None:
        """End the current file, and close the directory; raises OSError."""
        try:
            self.close_file()
        finally:
            os.close(self._directory)

    def _begin_file(self) -> None:
        self._number += 1
        name = name_file(self._start, self._writer, self._number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(name, flags, 0o600, dir_fd=self._directory)
        # The lock tells other writers that the file is in use. The kernel drops it when this process ends.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._size, self._compressor = 0, _make_compressor()
        header = Header(format=FORMAT, version=__version__, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._header, self._has_lines = msgspec.json.encode(header) + b"\n", False

    def _abandon(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _write_all(self, block: bytes) -> None:
        view = memoryview(block)
        while view:
            count = os.write(self._descriptor, view)
            view = view[count:]
            self._size += count
            self.written += count

    def _make_room(self, wanted: int) -> None:
        """Delete the oldest files until a block fits; raises OSError if it does not fit even then."""
        files = sorted(self._list_files())
        total = sum(file.size for file in files)
        for file in files:
            if total + wanted <= self._max_bytes:
                return
            if self._delete(file.name):
                total -= file.size
        if total + wanted > self._max_bytes:
            raise OSError(f"a block of {wanted} bytes does not fit: raise record_max ({self._max_bytes} bytes)")

    def _list_files(self) -> Iterator[_File]:
        for name in os.listdir(self._directory):  # noqa: PTH208 - pathlib takes no descriptor
            if FILE_NAME.fullmatch(name) is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                state = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
                if stat.S_ISREG(state.st_mode):
                    yield _File(state.st_mtime_ns, name, state.st_size)

    def _delete(self, name: str) -> bool:
        """Delete a file, and return whether it is gone; False if a process writes to it."""
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._directory
            )
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=self._directory)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    @contextlib.contextmanager
    def _lock_directory(self) -> Iterator[None]:
        """Hold the lock, so that two writers do not fill the same room.

        After half a second, go on without the lock: its holder may have been stopped.
        """
        has_lock = False
        for _ in range(_LOCK_ATTEMPTS):
            try:
                fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_SECONDS)
            else:
                has_lock = True
                break
        try:
            yield
        finally:
            if has_lock:
                fcntl.flock(self._directory, fcntl.LOCK_UN)


class _Compressor(Protocol):
    """A compressor of isal, whose stubs have no public type for it."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self, mode: int = ..., /) -> bytes: ...


def _make_compressor() -> _Compressor:
    return isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
