"""Records answered reviews: the event loop appends them to a bounded queue, and a thread writes them to files.

The thread shares the interpreter lock with the event loop, and perhaps its core. While the event loop works for most of
the time, the thread rests, so that its share of the time stays small. The queue may then overflow.
"""

import contextlib
import logging
import secrets
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from fleethook.fairness.slots import Shares
from fleethook.recordings.quoted_values import Hasher
from fleethook.recordings.record.files import RecordFiles
from fleethook.recordings.record.lines import EncodeLines, LineEncoder
from fleethook.recordings.redaction import Redactor
from fleethook.recordings.suspicion import Suspicion, parse_field
from fleethook.server.metrics.worker_metrics import Counts
from fleethook.server.reviews.recording import AnsweredReview, AskedCall, RecordSettingError
from fleethook.settings import Settings

SHARE: Final = 0.015
"""The maximum share of the time for which the recorder works while the event loop is busy."""
_BUSY: Final = 0.7
"""The share of processor time from which an event loop counts as busy. A saturated event loop has less than 1, because
the recorder and other processes take some."""
_WINDOW_SECONDS: Final = 0.1
_MAX_REST: Final = 1.0


def time_thread(ident: int) -> Callable[[], float]:
    """Return a function that returns the seconds of processor time of a thread. Call it only while the thread runs.

    On a system without this figure (macOS), the function returns 0.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(clock)


class Throttle:
    """Computes the time for which the recorder rests."""

    def __init__(
        self,
        event_loop: Callable[[], float],
        *,
        recorder: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the throttle.

        Args:
            event_loop: Returns the seconds of processor time of the event loop's thread.
            recorder: Returns the seconds of processor time of the calling thread.
            clock: Returns the time in seconds.
        """
        self._event_loop: Final = event_loop
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._since, self._before = clock(), event_loop()
        self._is_busy = False
        self._worked = 0.0

    def begin(self) -> None:
        """Begin some work, on the thread of the recorder."""
        elapsed = self._clock() - self._since
        if elapsed >= _WINDOW_SECONDS:
            spent = self._event_loop()
            self._is_busy = spent - self._before >= elapsed * _BUSY
            self._since, self._before = self._since + elapsed, spent
        self._worked = self._recorder()

    def end(self) -> float:
        """End the work, and return the seconds to rest."""
        worked = self._recorder() - self._worked
        return min(_MAX_REST, worked / SHARE - worked) if self._is_busy else 0.0


REASONS: Final = ("overflow", "redaction", "write", "error")


class RecordMetrics:
    """Counts records. Only the recorder's thread calls the methods.

    Attributes:
        overflowed: The number of reviews that found the queue full; only the event loop changes it.
    """

    def __init__(self) -> None:
        """Create all series now, so that no scrape reads them while another thread adds one."""
        self._recorded: Final = Counts("fleethook_recorded_reviews", "Reviews that were written to the recording.", [])
        self._dropped: Final = Counts(
            "fleethook_record_dropped_reviews",
            "Reviews that were not recorded, by reason: the queue was full (overflow), they had too many values to "
            "redact (redaction), a file could not be written (write), or a defect (error).",
            ["reason"],
        )
        self._bytes: Final = Counts("fleethook_record_bytes", "Compressed bytes written to the recording.", [])
        self._errors: Final = Counts("fleethook_record_errors", "Failed writes to the recording, and defects.", [])
        self._published_overflows = 0
        self.overflowed = 0
        for counts in (self._recorded, self._bytes, self._errors):
            counts.add((), 0.0)
        for reason in REASONS:
            self._dropped.add((reason,), 0.0)

    def collectors(self) -> Iterator[Collector]:
        """Yield the collectors for a registry."""
        yield from (self._recorded, self._dropped, self._bytes, self._errors)

    def add_recorded(self, count: int) -> None:
        """Count reviews that were written."""
        self._recorded.add((), count)

    def add_dropped(self, reason: str, count: int) -> None:
        """Count reviews that were not written."""
        if count:
            self._dropped.add((reason,), count)

    def add_bytes(self, count: int) -> None:
        """Count bytes that were written."""
        self._bytes.add((), count)

    def add_error(self) -> None:
        """Count a failed write or a defect."""
        self._errors.add((), 1.0)

    def publish(self) -> None:
        """Publish the number of overflows."""
        new = self.overflowed - self._published_overflows
        self._published_overflows += new
        self.add_dropped("overflow", new)


_log: Final = logging.getLogger(__name__)

MAX_QUEUE_BYTES: Final = 32 << 20
"""The maximum bytes of reviews and answers in the queue."""
_MULTIPLE: Final = 8
"""A logical cluster may hold eight times the free part of the queue, so a single one gets 8/9 of the queue."""
# A block of about 512 KiB takes 1 ms, and 50 ms pass between blocks, so that the thread wakes up rarely.
_BLOCK_BYTES: Final = 512 << 10
_PAUSE_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 10.0
# Objects around a review and its answer. Because of them, the queue has at most 20,000 reviews.
_OVERHEAD_BYTES: Final = 1600
_HASHES: Final = 1 << 32


class Recorder:
    """Records all reviews that it gets, or a sample of them.

    On the event loop, ask `wants` about each review, and call the recorder with each review that it accepts. Both only
    count and append. `start` starts the thread, `close` writes the rest of the queue.
    """

    def __init__(
        self,
        files: RecordFiles,
        encode: EncodeLines,
        metrics: RecordMetrics,
        *,
        throttle: Throttle | None = None,
        sample: float = 1.0,
        max_bytes: int = MAX_QUEUE_BYTES,
    ) -> None:
        """Initialize the recorder.

        Args:
            files: Takes the lines; the recorder closes it.
            encode: Encodes reviews.
            metrics: Counts records.
            throttle: Lets the event loop have the processor; None to write as fast as possible.
            sample: The share of reviews to record. All servers choose the same reviews, by their uid.
            max_bytes: The maximum bytes of queued reviews.
        """
        self._files: Final = files
        self._encode: Final = encode
        self._metrics: Final = metrics
        self._throttle: Final = throttle
        self._below: Final = int(sample * _HASHES)
        self._queue: Final[deque[tuple[AnsweredReview, int]]] = deque()
        # The thread lists here the sizes that it took from the queue. Only the event loop changes the shares.
        self._shares: Final = Shares(max_bytes, multiple=_MULTIPLE)
        self._taken: Final[deque[tuple[str, int]]] = deque()
        self._is_idle = True
        self._retry_at = 0.0
        self._wake: Final = threading.Event()
        self._closing: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="recorder", daemon=True)

    def wants(self, uid: str, consumer: str, body: bytes, answer: bytes) -> bool:
        """Return whether the sample contains a review and the queue has room for it; count a review without room."""
        if self._below < _HASHES and zlib.crc32(uid.encode() or body) >= self._below:
            return False
        return self._has_room(consumer, len(body) + len(answer) + _OVERHEAD_BYTES)

    def __call__(self, review: AnsweredReview) -> None:
        """Queue a review that `wants` has accepted; drop it if the answers of its calls are too large."""
        size = len(review.body) + len(review.answer) + _OVERHEAD_BYTES
        if review.calls:
            size += sum(_weigh(call, len(review.body)) for call in review.calls)
            if not self._has_room(review.consumer, size):
                return
        self._shares.take(review.consumer, size)
        self._queue.append((review, size))
        if self._is_idle:
            self._is_idle = False
            self._wake.set()

    def _has_room(self, consumer: str, size: int) -> bool:
        while self._taken:
            self._shares.give_back(*self._taken.popleft())
        if self._shares.allows(consumer, size):
            return True
        self._metrics.overflowed += 1
        return False

    def start(self) -> None:
        """Begin the first file, and start the thread; raises OSError if the directory cannot be written to."""
        self._files.start()
        self._thread.start()

    def close(self) -> None:
        """Write the queue, and end the thread and the files. A file that takes too long is left unfinished."""
        self._closing.set()
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.error("the last reviews are not recorded: writing them took more than %d s", _CLOSE_SECONDS)

    def _run(self) -> None:
        while not (self._closing.is_set() and not self._queue):
            if not self._queue:
                self._wait()
                continue
            # Reviews that arrive in the meantime go to the same block.
            self._closing.wait(_PAUSE_SECONDS)
            while self._queue:
                self._write_block()
        self._metrics.publish()
        try:
            self._files.close()
        except OSError as error:
            self._report(error)

    def _wait(self) -> None:
        """Wait for a review."""
        self._wake.clear()
        self._is_idle = True
        # The loop may have appended a review before it saw that the thread is idle.
        if not self._queue and not self._closing.is_set():
            self._wake.wait()
        self._is_idle = False

    def _write_block(self) -> None:
        if self._throttle is not None:
            self._throttle.begin()
        reviews = self._take()
        try:
            self._write(reviews)
        except Exception:  # noqa: BLE001 - a defect must not end the thread, which would drop all later reviews
            self._metrics.add_dropped("error", len(reviews))
            self._metrics.add_error()
            _log.exception("recording reviews failed")
        self._metrics.publish()
        rest = 0.0 if self._throttle is None else self._throttle.end()
        if rest:
            self._closing.wait(rest)

    def _take(self) -> list[AnsweredReview]:
        """Take the reviews of one block from the queue."""
        reviews, size = list[AnsweredReview](), 0
        while self._queue and size < _BLOCK_BYTES:
            review, weight = self._queue.popleft()
            reviews.append(review)
            size += weight
            self._taken.append((review.consumer, weight))
        return reviews

    def _write(self, reviews: list[AnsweredReview]) -> None:
        if time.monotonic() < self._retry_at:
            self._metrics.add_dropped("write", len(reviews))
            return
        lines = self._encode(reviews)
        before = self._files.written
        try:
            if lines.written:
                self._files.write(lines.text)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._report(error)
            self._metrics.add_dropped("write", lines.written)
        else:
            self._metrics.add_recorded(lines.written)
        self._metrics.add_bytes(self._files.written - before)
        self._metrics.add_dropped("redaction", lines.refused)

    def _report(self, error: OSError) -> None:
        self._metrics.add_error()
        _log.error("reviews are not recorded for %d s, because writing failed: %s", _RETRY_SECONDS, error)


def _weigh(call: AskedCall, body: int) -> int:
    """Return the estimated bytes of a call: a script may return the object under review."""
    answer = call.answer
    patch = answer.get("patch") if isinstance(answer, dict) else None
    return _OVERHEAD_BYTES + len(call.error) + (len(patch) if isinstance(patch, str) else body)


_KEY_BYTES = 32


def make_encoder(redact: list[str]) -> LineEncoder:
    """Return an encoder with a new random key.

    Args:
        redact: The fields to redact beside Secrets, as `fleethook.recordings.suspicion.parse_field` reads them.

    Raises:
        RecordSettingError: A text names no field.
    """
    try:
        fields = [parse_field(text) for text in redact]
    except ValueError as error:
        raise RecordSettingError(f"record_redact: {error}") from error
    # The key stays in this process: with the key, anybody could guess values from their hashes.
    hasher = Hasher(secrets.token_bytes(_KEY_BYTES))
    return LineEncoder(Redactor(hasher, fields), Suspicion(fields), hasher)


def make_recorder(settings: Settings, directory: Path, metrics: RecordMetrics) -> Recorder:
    """Return the recorder of a server; call this on the thread of the event loop.

    Raises:
        OSError: The directory cannot be opened.
        RecordSettingError: A setting cannot be used.
    """
    encoder = make_encoder(settings.record_redact)
    files = RecordFiles(directory, max_bytes=settings.record_max, writers=settings.workers)
    throttle = Throttle(time_thread(threading.get_ident()))
    return Recorder(files, encoder.encode, metrics, throttle=throttle, sample=settings.record_sample)


@contextlib.contextmanager
def record_reviews(recorder: Recorder, metrics: RecordMetrics, registry: CollectorRegistry) -> Iterator[None]:
    """Run the recorder within the context, and publish its metrics; write the rest of the queue at the end.

    Raises:
        OSError: The directory cannot be written to.
    """
    for collector in metrics.collectors():
        registry.register(collector)
    recorder.start()
    try:
        yield
    finally:
        recorder.close()
