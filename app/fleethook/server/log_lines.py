"""Buffered log lines on standard error: a system call for each line would take 10 % of the time of a review.

The buffer is written after 50 ms, at 64 KiB, and when the context of `LogLines` ends. Buffered lines are lost only if
the context does not end: on SIGKILL (also sent when the memory is exhausted), on other signals that the server does not
handle, on a crash of the interpreter, and on `os._exit`. In a terminal, each line of JSON becomes a line of text.
"""

import asyncio
import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from fleethook.model.formats.text import escape

_STANDARD_ERROR: Final = 2
_FLUSH_SECONDS: Final = 0.05
_FLUSH_BYTES: Final = 64 * 1024


class LogLines:
    """Writes complete lines in their order."""

    def __init__(
        self,
        descriptor: int = _STANDARD_ERROR,
        *,
        convert: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Prepare.

        Args:
            descriptor: The file descriptor of the stream.
            convert: Turns each line into another form before it is written; None to write the lines as they are.
        """
        self._convert: Final = convert
        self._descriptor: Final = descriptor
        self._mutex: Final = threading.RLock()
        self._lines: list[bytes] = []
        self._size = 0
        self._flushing: asyncio.AbstractEventLoop | None = None

    def write(self, line: bytes) -> None:
        """Buffer a line, which ends with a newline; call this in a running event loop."""
        loop = asyncio.get_running_loop()
        with self._mutex:
            self._lines.append(line)
            self._size += len(line)
            if self._size >= _FLUSH_BYTES:
                self.flush()
            elif self._flushing is not loop:
                # A flush for another reason leaves the timer, so timers cause at most one write in 50 ms.
                self._flushing = loop
                loop.call_later(_FLUSH_SECONDS, self._flush_in_time)

    def write_at_once(self, line: bytes) -> None:
        """Write the buffered lines and this line, from any thread."""
        with self._mutex:
            self._lines.append(line)
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        with self._mutex:
            if not self._lines:
                return
            text = b"".join(self._lines if self._convert is None else map(self._convert, self._lines))
            self._lines, self._size = [], 0
            self._write(text)

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
                # The reader has gone, or the disk is full. The server then answers reviews without a log.
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.flush()


class LinesHandler(logging.Handler):
    """Writes log records at once, after the lines that were buffered before them."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._lines: Final = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            self._lines.write_at_once(self.format(record).encode() + b"\n")
        except Exception:  # noqa: BLE001 - as in every handler: a record never ends the program
            self.handleError(record)


_decoder: Final = msgspec.json.Decoder()
_HEAD: Final = frozenset({"ts", "level", "logger", "msg", "line", "exception", "requestId", "uid"})
# The members of the sentence about a review.
_OF_REVIEW: Final = frozenset(
    {
        "route", "allowed", "successful", "patchOps", "ms", "cluster", "gvk", "namespace", "name", "operation", "layer",
        "message",
    }
)  # fmt: skip


def choose_format(chosen: str = "auto") -> Callable[[bytes], bytes] | None:
    """Return the function that turns JSON lines into text, None if the log stays JSON, by the setting log_format."""
    is_text = sys.stdout.isatty() and sys.stderr.isatty() if chosen == "auto" else chosen == "text"
    return format_line if is_text else None


def format_line(line: bytes) -> bytes:
    """Return a JSON line of the log as text: local time, level, message, and the members that the message lacks."""
    fields = _decoder.decode(line)
    is_review = "ms" in fields
    text = _describe_review(fields) if is_review else str(fields["msg"])
    told = _HEAD | _OF_REVIEW if is_review else _HEAD
    rest = (f"{name}={value}" for name, value in fields.items() if name not in told and str(value) not in text)
    time = datetime.fromisoformat(fields["ts"]).astimezone()
    first = escape(" ".join([f"{time:%H:%M:%S} {fields['level']:<7}", text, *rest]))
    trace = escape(fields.get("exception", ""), keep="\n").splitlines()
    return "\n  ".join([first, *trace]).encode() + b"\n"


def _describe_review(fields: Mapping[str, Any]) -> str:
    """Return a sentence about the object of a review and its answer."""
    kind = fields.get("gvk", "").rpartition("/")[2]
    name = "/".join(filter(None, (fields.get("namespace"), fields.get("name"))))
    place = f"in {fields['cluster']}" if fields.get("cluster") else ""
    subject = " ".join(filter(None, (fields.get("operation"), kind, name, place)))
    answer = ", ".join(_describe_answer(fields))
    return f"{subject or fields['msg']}: {answer} ({fields['route']}, {fields['ms']:.1f} ms)"


def _describe_answer(fields: Mapping[str, Any]) -> Iterator[str]:
    if "successful" in fields:
        yield f"{'answered' if fields['successful'] else 'failed'} by {fields.get('layer') or 'no interpreter'}"
    else:
        yield "allowed" if fields["allowed"] else "refused"
    if count := fields.get("patchOps"):
        yield f"{count} change{'s' if count > 1 else ''}"
    if message := fields.get("message"):
        yield message
