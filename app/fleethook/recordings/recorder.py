"""Records answered reviews: the event loop appends them to a bounded queue, and a thread writes them to files."""

import contextlib
import logging
import os
import secrets
import stat
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from fleethook import __version__
from fleethook.model.formats.text import describe_os_error
from fleethook.recordings.recording_format import FILE_NAME, FORMAT, Header, Record, RecordedCall, name_file, wrap_body
from fleethook.recordings.redaction import Redactor, SecretError, make_redactor
from fleethook.server.metrics import Counts
from fleethook.server.reviews.records_and_traces import AnsweredReview, AskedCall, RecordSettingError
from fleethook.settings import Settings

_MAX_FILE_BYTES: Final = 64 << 20
# The current file has at most 1/8 of the maximum size, because it is not deleted.
_FILES_PER_DIRECTORY: Final = 8
_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS


class RecordFiles:
    """Writes blocks of lines, begins a new file when one is full, and deletes the oldest files of the directory."""

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        """Create the directory with mode 0700 if it does not exist, and begin the first file.

        Args:
            directory: The directory.
            max_bytes: The maximum size of all files of recordings in it.

        Raises:
            OSError: The directory or the file cannot be created.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory: Final = directory
        self._max_bytes: Final = max_bytes
        self._file_bytes: Final = min(_MAX_FILE_BYTES, max_bytes // _FILES_PER_DIRECTORY)
        self._start: Final = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._writer: Final = secrets.token_hex(4)
        self._number = 0
        self._open()

    def _open(self) -> None:
        self._number += 1
        self._path = self._directory / name_file(self._start, self._writer, self._number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(self._path, flags, 0o600), "wb")
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        header = Header(format=FORMAT, version=__version__, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._file.write(self._compressor.compress(msgspec.json.encode(header) + b"\n"))
        self._has_lines = False

    def write(self, lines: bytes) -> None:
        """Write lines as a complete block, so that a reader can decompress them even if this process is killed.

        Raises:
            OSError: The lines could not be written. Later lines go to a new file.
        """
        try:
            if self._file.closed:
                self._open()
            self._file.write(self._compressor.compress(lines) + self._compressor.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()
            self._has_lines = True
            self._delete_oldest()
        except OSError:
            self._abandon()
            raise
        if self._file.tell() >= self._file_bytes:
            self.close()

    def close(self) -> None:
        """End the current file, and delete it if it has no lines; raises OSError."""
        if self._file.closed:
            return
        try:
            if self._has_lines:
                self._file.write(self._compressor.flush())
            else:
                self._path.unlink()
            self._file.close()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Close the file; bytes that could not be written are lost."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _delete_oldest(self) -> None:
        """Delete the oldest files until the others have at most the maximum size; the current file stays."""
        files = sorted(self._list_files())
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._max_bytes:
                return
            if path != self._path:
                path.unlink(missing_ok=True)
                total -= size

    def _list_files(self) -> Iterator[tuple[int, int, Path]]:
        """Yield time of the last write, size and path of each recording."""
        for path in self._directory.iterdir():
            if FILE_NAME.fullmatch(path.name) is not None:
                with contextlib.suppress(FileNotFoundError):
                    state = path.lstat()
                    if stat.S_ISREG(state.st_mode):
                        yield state.st_mtime_ns, state.st_size, path


REASONS: Final = ("overflow", "secret", "write", "error")


class RecordMetrics:
    """Counts records. Only the recorder's thread calls the methods."""

    def __init__(self) -> None:
        """Create all series now, so that no scrape reads them while another thread adds one."""
        self._recorded: Final = Counts("fleethook_recorded_reviews", "Reviews that were written to the recording.", [])
        self._dropped: Final = Counts(
            "fleethook_record_dropped_reviews",
            "Reviews that were not recorded, by reason: the queue was full (overflow), they may contain a Secret "
            "(secret), a file could not be written (write), or a defect (error).",
            ["reason"],
        )
        self._recorded.add((), 0.0)
        for reason in REASONS:
            self._dropped.add((reason,), 0.0)

    def collectors(self) -> Iterator[Collector]:
        """Yield the collectors for a registry."""
        yield from (self._recorded, self._dropped)

    def add_recorded(self, count: int) -> None:
        """Count reviews that were written."""
        self._recorded.add((), count)

    def add_dropped(self, reason: str, count: int = 1) -> None:
        """Count reviews that were not written."""
        if count:
            self._dropped.add((reason,), count)


_log: Final = logging.getLogger(__name__)

MAX_QUEUE_BYTES: Final = 32 << 20
"""The maximum bytes of reviews and answers in the queue."""
_RETRY_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 10.0
# Objects around a review and its answer. Because of them, the queue has at most 20,000 reviews.
_OVERHEAD_BYTES: Final = 1600
_HASHES: Final = 1 << 32


class Recorder:
    """Records all reviews that it gets, or a sample of them.

    Call it on the event loop: it only appends. `start` starts the thread, `close` writes the rest of the queue.
    """

    def __init__(
        self,
        files: RecordFiles,
        redactor: Redactor,
        metrics: RecordMetrics,
        *,
        sample: float = 1.0,
        max_bytes: int = MAX_QUEUE_BYTES,
        close_seconds: float = _CLOSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the recorder.

        Args:
            files: Takes the lines; the recorder closes it.
            redactor: Refuses and redacts records.
            metrics: Counts records.
            sample: The share of reviews to record. All servers choose the same reviews, by their uid.
            max_bytes: The maximum bytes of queued reviews.
            close_seconds: Time for which `close` waits.
            clock: A monotonic clock in seconds.
        """
        self._close_seconds: Final = close_seconds
        self._clock: Final = clock
        self._files: Final = files
        self._redactor: Final = redactor
        self._metrics: Final = metrics
        self._below: Final = int(sample * _HASHES)
        self._max_bytes: Final = max_bytes
        self._queue: deque[AnsweredReview] = deque()
        self._queued_bytes = 0
        self._overflowed = 0
        self._is_closing = False
        # Guards the members above.
        self._changed: Final = threading.Condition()
        self._retry_at = 0.0
        self._thread: Final = threading.Thread(target=self._run, name="recorder", daemon=True)

    def __call__(self, review: AnsweredReview) -> None:
        """Queue a review of the sample; drop it if the queue is full."""
        if self._below < _HASHES and zlib.crc32(review.uid.encode() or review.body) >= self._below:
            return
        size = len(review.body) + len(review.answer) + _OVERHEAD_BYTES
        size += sum(_weigh(call, len(review.body)) for call in review.calls)
        with self._changed:
            if self._queued_bytes + size > self._max_bytes:
                self._overflowed += 1
            else:
                self._queue.append(review)
                self._queued_bytes += size
            self._changed.notify()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Write the queue, and end the thread and the files. A file that takes too long is left unfinished."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(self._close_seconds)
        if self._thread.is_alive():
            _log.error("the last reviews are not recorded: writing them took more than %d s", self._close_seconds)

    def _run(self) -> None:
        while reviews := self._take():
            try:
                self._write(reviews)
            except Exception:  # noqa: BLE001 - a defect must not end the thread, which would drop all later reviews
                self._metrics.add_dropped("error", len(reviews))
                _log.exception("recording reviews failed")
        try:
            self._files.close()
        except OSError as error:
            self._report(error)

    def _take(self) -> deque[AnsweredReview]:
        """Wait for reviews, and take all of them; none if the recorder is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            reviews, self._queue, self._queued_bytes = self._queue, deque(), 0
            overflowed, self._overflowed = self._overflowed, 0
        self._metrics.add_dropped("overflow", overflowed)
        return reviews

    def _write(self, reviews: deque[AnsweredReview]) -> None:
        if self._clock() < self._retry_at:
            self._metrics.add_dropped("write", len(reviews))
            return
        lines = [line for review in reviews if (line := self._encode(review))]
        try:
            if lines:
                self._files.write(b"".join(lines))
        except OSError as error:
            self._retry_at = self._clock() + _RETRY_SECONDS
            self._report(error)
            self._metrics.add_dropped("write", len(lines))
        else:
            self._metrics.add_recorded(len(lines))

    def _encode(self, review: AnsweredReview) -> bytes:
        """Return the line of a review, empty if it must not be recorded."""
        try:
            return encode_line(review, self._redactor)
        except SecretError:
            self._metrics.add_dropped("secret")
        except Exception:  # noqa: BLE001 - one review must not keep the others of its block from being recorded
            self._metrics.add_dropped("error")
            _log.exception("a review cannot be recorded", extra={"fields": {"route": review.route, "uid": review.uid}})
        return b""

    def _report(self, error: OSError) -> None:
        _log.error("reviews are not recorded for %d s, because writing failed: %s", _RETRY_SECONDS, error)


def _weigh(call: AskedCall, body: int) -> int:
    """Return the estimated bytes of a call: a script may return the object under review."""
    answer = call.answer
    patch = answer.get("patch") if isinstance(answer, dict) else None
    return _OVERHEAD_BYTES + len(call.error) + (len(patch) if isinstance(patch, str) else body)


def encode_line(review: AnsweredReview, redactor: Redactor) -> bytes:
    """Return the line of a review, with its line feed; raises SecretError."""
    asked = b"%b?%b" % (review.path, review.query) if review.query else review.path
    record = Record(
        time=datetime.fromtimestamp(review.time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        route=review.route,
        path=asked.decode("latin-1"),
        cluster=review.cluster,
        seconds=round(review.seconds, 6),
        status=review.status,
        caller=dict(review.caller),
        review=wrap_body(review.body),
        answer=wrap_body(review.answer),
        calls=[_make_call(call) for call in review.calls],
    )
    return msgspec.json.encode(redactor.redact(record)) + b"\n"


def _make_call(call: AskedCall) -> RecordedCall:
    return RecordedCall(
        kind=call.kind,
        name=call.name,
        key=call.key,
        configuration=call.configuration,
        cluster=call.cluster,
        digest=call.digest,
        answer=msgspec.UNSET if call.error else msgspec.Raw(msgspec.json.encode(call.answer)),
        error=call.error,
        failure=None if call.failure is None else dict(call.failure),
    )


def make_recorder(settings: Settings, directory: Path, metrics: RecordMetrics) -> Recorder:
    """Return the recorder of a server.

    Raises:
        RecordSettingError: A setting cannot be used, or the directory or its first file cannot be created.
    """
    redactor = make_redactor(settings.record_redact)
    try:
        files = RecordFiles(directory, max_bytes=settings.record_max)
    except OSError as error:
        raise RecordSettingError(f"record: {describe_os_error(error)}; give another --record") from error
    return Recorder(files, redactor, metrics, sample=settings.record_sample)


@contextlib.contextmanager
def record_reviews(recorder: Recorder, metrics: RecordMetrics, registry: CollectorRegistry) -> Iterator[None]:
    """Run the recorder within the context, and publish its metrics; write the rest of the queue at the end."""
    for collector in metrics.collectors():
        registry.register(collector)
    recorder.start()
    try:
        yield
    finally:
        recorder.close()
