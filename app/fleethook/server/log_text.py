"""Log lines for people: one line of text for each JSON line of a server that runs in a terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from fleethook.model.formats.text import escape

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
