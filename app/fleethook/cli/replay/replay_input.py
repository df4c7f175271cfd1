"""The recordings that ``fleethook replay`` reads: files, directories, standard input, and the selection of records."""

import contextlib
import io
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from fleethook.cli.exit_codes import fail
from fleethook.cli.output.text_output import FileProgress, show_files
from fleethook.recordings.reader import Entry, Problem, read_entries
from fleethook.recordings.recording_format import FILE_SUFFIX

_DURATION: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta | None:
    """Return a duration such as ``90m``, ``1h30m`` or ``7d``, None for other text."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_time(text: str) -> datetime | None:
    """Return an RFC 3339 time, None for other text and for a time without offset, which is ambiguous."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.astimezone(UTC) if time.tzinfo is not None else None


_STANDARD_INPUT: Final = Path("-")
_SUFFIXES: Final = (FILE_SUFFIX, ".jsonl")
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)

TakeProblem = Callable[[Problem], None]
"""Takes a problem of the input."""


class Selection(NamedTuple):
    """The records to replay.

    Attributes:
        routes: Templates of routes; all routes if it is empty.
        since: The earliest time.
        prefix: The beginning of the templates.
    """

    routes: frozenset[str] = frozenset()
    since: datetime = _OLDEST
    prefix: str = ""

    def selects(self, entry: Entry) -> bool:
        """Return whether a record is to be replayed."""
        record = entry.record
        if (self.routes and record.route not in self.routes) or not record.route.startswith(self.prefix):
            return False
        return self.since is _OLDEST or (parse_time(record.time) or _OLDEST) >= self.since


def list_recordings(paths: Sequence[Path]) -> list[Path]:
    """Return files, and the recordings of directories by name, which is by time for each server.

    Exits with a message if a path does not exist, or if a directory has no recording.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*.jsonl*") if one.name.endswith(_SUFFIXES) and one.is_file())
            if not inside:
                fail(f"{path} has no recording (*{FILE_SUFFIX} or *.jsonl)")
            found += inside
        elif path != _STANDARD_INPUT and not path.exists():
            fail(f"{path} does not exist")
        else:
            found.append(path)
    return found


def read_recordings(
    files: Sequence[Path], report: TakeProblem, *, progress: FileProgress | None = None
) -> Iterator[Entry]:
    """Yield the records of files; problems go to ``report``."""
    for file in files:
        for one in _read_file(file, progress):
            if isinstance(one, Problem):
                report(one)
            else:
                yield one


def _read_file(file: Path, progress: FileProgress | None) -> Iterator[Entry | Problem]:
    if progress is not None:
        progress.start()
    with contextlib.ExitStack() as stack:
        try:
            is_input = file == _STANDARD_INPUT
            opened = read_interruptibly(sys.stdin.buffer) if is_input else file.open("rb")
            stream = stack.enter_context(opened)
        except OSError as error:
            yield Problem(str(file), 1, f"the file cannot be read: {error.strerror}")
            return
        entries = read_entries(stream, "<stdin>" if is_input else str(file))
        if progress is None:
            yield from entries
            return
        for one in entries:
            yield one
            progress.advance(stream)


@contextlib.contextmanager
def read_interruptibly(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream with the same content, in which Ctrl-C ends each wait for a pipe or a terminal.

    Python handles signals between its own steps, and when a signal interrupts a system call. A signal that arrives
    directly before the call would be handled after it, when there is input.
    """
    if stream.seekable():
        yield stream
        return
    signals, written = os.pipe()
    try:
        os.set_blocking(written, False)
        yield io.BufferedReader(_InterruptibleInput(stream.fileno(), signals, written))
    finally:
        os.close(signals)
        os.close(written)


class _InterruptibleInput(io.RawIOBase):
    """Reads a file descriptor as soon as it has bytes, and returns to the interpreter for each signal before."""

    def __init__(self, descriptor: int, signals: int, written: int) -> None:
        self._descriptor: Final = descriptor
        self._signals: Final = signals
        self._written: Final = written
        self._poll: Final = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(signals, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        former = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        try:
            while self._descriptor not in (ready := dict(self._poll.poll())):
                os.read(self._signals, len(ready))
        finally:
            signal.set_wakeup_fd(former)
        return os.readv(self._descriptor, [buffer])


def find_since(text: str | None, files: Sequence[Path]) -> datetime:
    """Return the time of ``--since``. Exits with a message if it is invalid.

    A duration ends at the newest record, so that the same recordings always give the same result.
    """
    if text is None:
        return _OLDEST
    if (time := parse_time(text)) is not None:
        return time
    duration = parse_duration(text)
    if duration is None:
        fail(f"--since: {text!r} is neither an RFC 3339 time (2026-11-22T10:00:00Z) nor a duration (90m, 1h30m, 7d)")
    if _STANDARD_INPUT in files:
        fail("--since: a duration ends at the newest record, and standard input cannot be read twice: give a time")
    with show_files(files, lambda: "Searching for the newest record") as progress:
        entries = read_recordings(files, lambda _: None, progress=progress)
        times = (parse_time(entry.record.time) for entry in entries)
        newest = max((time for time in times if time is not None), default=None)
    try:
        return _OLDEST if newest is None else newest - duration
    except OverflowError:
        return _OLDEST
