"""Structured logs: one JSON object a line on standard error."""

import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

LogSink = Callable[[bytes], object]

_encoder: Final = msgspec.json.Encoder()
_STANDARD_ERROR: Final = 2


def write_line(line: bytes) -> None:
    """Write one line to standard error.

    In one system call of its own: several worker processes share the stream, and a line below the size of a pipe
    buffer (4 KiB, PIPE_BUF) then never mixes with another's.
    """
    os.write(_STANDARD_ERROR, line)


class Stamps:
    """The time as log lines say it; what all of a second have in common is made once for them."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        """Return the time, in UTC, with milliseconds."""
        now = self._clock()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{int((now - second) * 1000):03d}+00:00"


stamp: Final = Stamps()


def encode_line(fields: dict[str, object]) -> bytes:
    """Return ``fields`` as a line of JSON."""
    return _encoder.encode(fields) + b"\n"


class JSONFormatter(logging.Formatter):
    """Standard library log records as JSON lines; ``extra={"fields": {...}}`` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        fields: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields.update(getattr(record, "fields", {}))
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _encoder.encode(fields).decode()


def configure_logging() -> None:
    """Send every logger's records to standard error as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
