"""Structured logs and the lines of reviews: one JSON object per line, of limited length, no control characters.

Lines are buffered, because a system call for each would take 10 % of the time of a review. The buffer is written after
50 ms, at 64 KiB, and when the context of `LogLines` ends. Buffered lines are lost only if the context does not end: on
SIGKILL (also sent when the memory is exhausted), on other signals that the server does not handle, on a crash of the
interpreter, and on `os._exit`. In a terminal, each line of JSON becomes a line of text.
"""

import asyncio
import functools
import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from fleethook.model.admission import Response
from fleethook.model.formats.text import escape, escape_json, shorten
from fleethook.model.json import JSON
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.server.reviews.review_codec import Decoded
from fleethook.tracing.spans_and_otel_variables import find_trace_id

STANDARD_ERROR: Final = 2
_FLUSH_SECONDS: Final = 0.05
_FLUSH_BYTES: Final = 64 * 1024


class LogLines:
    """Writes complete lines in their order."""

    def __init__(self, descriptor: int = STANDARD_ERROR, *, convert: Callable[[bytes], bytes] | None = None) -> None:
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


LogSink = Callable[[bytes], object]

_encoder: Final = msgspec.json.Encoder()

MAX_LINE_BYTES: Final = 16 * 1024
"""Bytes of a line with its line feed: containerd splits longer lines (max_container_log_line_size)."""
# Characters of the members of a line that is too long, tried in this order, and the number of these members.
_CUTS: Final = (4096, 512, 64)
_MAX_MEMBERS: Final = 16
_MAX_TRACEBACK: Final = 4096


def write_line(line: bytes) -> None:
    """Write one line to standard error."""
    os.write(STANDARD_ERROR, line)


@functools.lru_cache(maxsize=1)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_FRACTIONS: Final = [f".{milliseconds:03d}+00:00" for milliseconds in range(1000)]


def format_time(seconds: float) -> str:
    """Return a time since 1970, in UTC, with milliseconds. The text of a second is kept: each review needs one."""
    second, milliseconds = divmod(int(seconds * 1000), 1000)
    return _format_second(second) + _FRACTIONS[milliseconds]


class ReviewLine(msgspec.Struct, rename="camel", gc=False):
    """A log line about an answered review; members that are not set are left out.

    A struct is made and encoded in half the time of a dictionary.
    """

    ts: str
    level: str
    msg: str
    route: str
    request_id: str
    uid: str
    allowed: bool
    patch_ops: int
    ms: float
    """Milliseconds from the review to its answer."""
    cluster: str | msgspec.UnsetType = msgspec.UNSET
    gvk: str | msgspec.UnsetType = msgspec.UNSET
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    operation: str | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    caller: str | msgspec.UnsetType = msgspec.UNSET
    owner: str | msgspec.UnsetType | None = msgspec.UNSET
    owner_case: str | msgspec.UnsetType = msgspec.UNSET
    owner_problem: str | msgspec.UnsetType = msgspec.UNSET
    hooks: int | msgspec.UnsetType = msgspec.UNSET
    trace_id: str | msgspec.UnsetType = msgspec.UNSET
    """The trace of the exported span of the review."""


class InterpretLine(msgspec.Struct, rename="camel", gc=False):
    """A log line about an answered interpreter review; members that are not set are left out."""

    ts: str
    level: str
    msg: str
    route: str
    uid: str
    successful: bool
    gvk: str | msgspec.UnsetType = msgspec.UNSET
    operation: str | msgspec.UnsetType = msgspec.UNSET
    layer: str | msgspec.UnsetType = msgspec.UNSET
    hook: str | msgspec.UnsetType = msgspec.UNSET
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    request_id: str = ""
    ms: float = 0.0
    """Milliseconds from the review to its answer."""
    trace_id: str | msgspec.UnsetType = msgspec.UNSET
    """The trace of the exported span of the review."""


Line = ReviewLine | InterpretLine

MAX_LOGGED: Final = 1000
"""Characters of a member of a review in a log line."""


def cut_text(text: str) -> str:
    """Return a text cut to `MAX_LOGGED` characters, so that encoding a long text takes no time."""
    return text if len(text) <= MAX_LOGGED else shorten(text, MAX_LOGGED)


# A member of a log line that is left out.
_UNSET: Final[str | msgspec.UnsetType] = msgspec.UNSET


def _read_cluster(metadata: Mapping[str, JSON]) -> str:
    annotations = metadata.get("annotations")
    cluster = annotations.get(CLUSTER_ANNOTATION) if isinstance(annotations, dict) else None
    return cut_text(cluster) if isinstance(cluster, str) and cluster else ""


def make_admission_line(
    path: str, review: Decoded, response: Response, *, seconds: float, request_id: str
) -> ReviewLine:
    """Return the line about an answered admission review."""
    cluster = gvk = namespace = name = operation = _UNSET
    # Members without `cut_text` have a limit when they are decoded.
    if (request := review.request) is not None:
        kind, metadata = request.kind, request.known_metadata
        cluster = _read_cluster(metadata)
        gvk = f"{kind.group}/{kind.version}/{kind.kind}"
        namespace, operation = request.namespace, request.operation
        generated = request.name or metadata.get("generateName", "")
        name = cut_text(generated) if isinstance(generated, str) else ""
    message = cut_text(response.message) if response.message else _UNSET
    # By position, because setting members one by one takes 25 % more time.
    return ReviewLine(
        format_time(time.time()), "info", "review", path, request_id, review.uid, response.allowed,
        len(response.patch), round(1e6 * seconds) / 1000, cluster, gvk, namespace, name, operation, message,
    )  # fmt: skip


def encode_line(fields: dict[str, object] | Line) -> bytes:
    """Return ``fields`` as a line of JSON.

    Control, bidirectional and line separator characters become JSON escapes. A line of more than `MAX_LINE_BYTES` is
    cut: it has the member ``"cut": true``, and each cut text states the number of characters that are left out.
    """
    line = _encode(fields)
    for limit in _CUTS:
        if len(line) < MAX_LINE_BYTES:
            break
        line = _encode({**_cut(_members(fields), limit), "cut": True})
    return line + b"\n"


def _members(fields: dict[str, object] | Line) -> dict[str, object]:
    members: dict[str, object] = fields if isinstance(fields, dict) else msgspec.to_builtins(fields)
    return members


def _encode(fields: dict[str, object] | Line) -> bytes:
    try:
        line = _encoder.encode(fields)
    except UnicodeEncodeError:
        # UTF-8 cannot encode a surrogate without its other half.
        return escape_json(json.dumps(_members(fields), default=str)).encode()
    # JSON escapes the other ASCII control characters.
    if line.isascii() and 0x7F not in line:
        return line
    return escape_json(line.decode()).encode()


def _cut(fields: Mapping[str, object], limit: int) -> dict[str, object]:
    return {
        shorten(name, 64): value if isinstance(value, bool | int | float | None) else shorten(str(value), limit)
        for name, value in islice(fields.items(), _MAX_MEMBERS)
    }


class JSONFormatter(logging.Formatter):
    """Standard library log records as JSON lines; ``extra={"fields": {...}}`` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        fields: dict[str, object] = {
            "ts": format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields.update(getattr(record, "fields", {}))
        if trace_id := find_trace_id():
            fields["traceId"] = trace_id
        if record.exc_info:
            # The end of a traceback contains the error.
            fields["exception"] = self.formatException(record.exc_info)[-_MAX_TRACEBACK:]
        return encode_line(fields).decode().removesuffix("\n")


def configure_logging(lines: LogLines) -> None:
    """Send every logger's records as JSON lines to ``lines``, where they keep their order among those of reviews."""
    handler = LinesHandler(lines)
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("watchfiles").setLevel(logging.WARNING)


def hide_cancelled_requests() -> None:
    """Let uvicorn log no traceback for requests that a shutdown ends: after its time limit, or at a second signal."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
