"""Recordings for tests, written as the format says."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec

from fleethook.recordings.recording_format import FORMAT, Record, RecordedCall

TIME = "2026-11-22T10:00:00.000001Z"
MUTATE = "/mutate-apps-v1-deployment"


def header(**members: Any) -> bytes:
    return msgspec.json.encode({"format": FORMAT, "version": "0.1.0", "started": TIME, **members})


def line(review: Any = None, answer: Any = None, *, calls: list[RecordedCall] | None = None, **members: Any) -> bytes:
    """Return a record; reviews and answers are JSON values, or bytes of JSON text."""
    raws = [msgspec.Raw(one if isinstance(one, bytes) else json.dumps(one).encode()) for one in (review, answer)]
    known = {"time": TIME, "route": MUTATE, "path": MUTATE, **members}
    return msgspec.json.encode(Record(review=raws[0], answer=raws[1], calls=calls or [], **known))


def write(path: Path, *lines: bytes) -> Path:
    """Write a file of a recording with its header, compressed if its name says so."""
    text = b"".join(one + b"\n" for one in (header(), *lines))
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
