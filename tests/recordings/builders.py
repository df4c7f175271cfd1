"""Builds answered reviews and reads recordings."""

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from fleethook.server.reviews.records_and_traces import AnsweredReview, AskedCall

ROUTE = "/mutate-apps-v1-deployment"


def answered(
    body: Any = None, answer: Any = None, *, calls: tuple[AskedCall, ...] = (), status: int = 200, **rest: Any
) -> AnsweredReview:
    """Return an answered review; documents become JSON text, bytes stay as they are."""
    uid = "1"
    members: dict[str, Any] = {
        "time": 1_700_000_000.25,
        "route": ROUTE,
        "path": ROUTE.encode(),
        "query": b"",
        "cluster": "",
        "seconds": 0.000123,
        "status": status,
        "caller": {},
        "uid": uid,
        "body": to_bytes({"request": {"uid": uid}} if body is None else body),
        "answer": to_bytes({"response": {"uid": uid, "allowed": True}} if answer is None else answer),
        "calls": calls,
    }
    return AnsweredReview(**{**members, **rest})


def to_bytes(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def to_base64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def to_patch(*operations: Any) -> str:
    return to_base64(json.dumps(operations))


def read_lines(path: Path) -> list[Any]:
    """Return the lines of a complete file, decoded."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def read_prefix(path: Path) -> list[Any]:
    """Return the lines of a file that may lack its end."""
    text = zlib.decompressobj(31).decompress(path.read_bytes())
    return [json.loads(line) for line in text.splitlines()]
