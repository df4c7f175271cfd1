"""Log lines on standard error, many at a time: a system call for each line costs a tenth of a review.

Lines wait for 50 ms at most, or until there are 64 KiB of them, and `LogLines` writes the rest when its context ends.
Lines that wait are lost only if it does not end: SIGKILL (so also when memory is out), another signal that the server
does not handle, a crash of the interpreter, `os._exit`.
"""

import asyncio
import fcntl
import logging
import os
import select
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_STANDARD_ERROR: Final = 2
_FLUSH_SECONDS: Final = 0.05
_FLUSH_BYTES: Final = 64 * 1024


class LogLines:
    """Writes whole lines, in the order in which they were given.

    Worker processes share the stream. A pipe keeps writes together up to PIPE_BUF only (4 KiB, POSIX write(2)), which
    is ten lines. So each write, of any length, holds a lock that is shared by all workers.
    """

    def __init__(self, descriptor: int = _STANDARD_ERROR, *, lock_file: Path | None = None) -> None:
        """Prepare.

        Args:
            descriptor: Where the lines go.
            lock_file: Locked during each write; None if no other process writes to the same stream.
        """
        self._descriptor: Final = descriptor
        # Each process opens the file itself: an inherited descriptor would share its lock (flock(2)).
        self._lock_file: Final = None if lock_file is None else os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        self._mutex: Final = threading.RLock()
        self._lines: list[bytes] = []
        self._size = 0
        self._flushing: asyncio.AbstractEventLoop | None = None

    def write(self, line: bytes) -> None:
        """Take a line, which ends with a newline, from a running event loop."""
        loop = asyncio.get_running_loop()
        with self._mutex:
            self._lines.append(line)
            self._size += len(line)
            if self._size >= _FLUSH_BYTES:
                self.flush()
            elif self._flushing is not loop:
                # One timer at a time, also after a flush for another reason: no more than one write in 50 ms is its.
                self._flushing = loop
                loop.call_later(_FLUSH_SECONDS, self._flush_in_time)

    def write_at_once(self, line: bytes) -> None:
        """Write a line after those that wait, from any thread."""
        with self._mutex:
            self._lines.append(line)
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait."""
        with self._mutex:
            if not self._lines:
                return
            text = b"".join(self._lines)
            self._lines, self._size = [], 0
            if self._lock_file is None:
                self._write(text)
                return
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                self._write(text)
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _flush_in_time(self) -> None:
        with self._mutex:
            self._flushing = None
            self.flush()

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # The parent process made the pipe non-blocking, and it is full.
                select.select([], [self._descriptor], [])
            except OSError:
                # The reader has gone, or the disk is full. Reviews are answered without a log then.
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.flush()


class LinesHandler(logging.Handler):
    """Writes log records at once, after the lines that were given before them."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._lines: Final = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            self._lines.write_at_once(self.format(record).encode() + b"\n")
        except Exception:  # noqa: BLE001 - as every handler does: a record never ends the program
            self.handleError(record)
