"""One recorded review: its verdict, the changes of its object, and the webhooks and scripts that were asked."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.console.reviews.review_index import classify, read_recorded_outcome
from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON, as_object
from fleethook.patch import PatchError, apply
from fleethook.recordings.recording_format import BodyError, RecordedCall, RecordEntry, unwrap_body
from fleethook.recordings.replay.decision_changes import OutcomeDifference
from fleethook.recordings.replay.replay import DiffLine, describe_difference

MAX_CHARACTERS: Final = 100_000
"""Characters of the shown review."""
_MAX_ANSWER: Final = 20_000
MAX_DEPTH: Final = 12
"""Levels of a value that a page shows as a structure. An explanation has five."""


class ShownValue(NamedTuple):
    """A value of a record.

    Attributes:
        text: The value as JSON, cut to a number of characters.
        value: The value.
        is_structure: Whether a page can show a structure: the value is not cut, and has at most `MAX_DEPTH` levels.
    """

    text: str
    value: JSON
    is_structure: bool


def show_value(value: JSON, limit: int) -> ShownValue:
    """Return a value for a page.

    Args:
        value: The value.
        limit: The most characters of the text.
    """
    text = _dump(value)
    is_structure = len(text) <= limit and isinstance(value, dict | list) and _has_levels(value, MAX_DEPTH)
    return ShownValue(shorten(text, limit), value, is_structure)


def _has_levels(value: JSON, most: int) -> bool:
    """Return whether a value has at most so many levels of objects and arrays."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_has_levels(one, most - 1) for one in inner)


def list_columns(rows: Sequence[JSON]) -> list[str]:
    """Return the columns of a table of objects, in the order of their first use; none if a row is no object."""
    if not all(isinstance(one, dict) for one in rows):
        return []
    return list(dict.fromkeys(name for one in rows for name in as_object(one)))


class ShownCall(NamedTuple):
    """A webhook, a script or a read that the answer depended on.

    Attributes:
        kind: ``webhook``, ``script`` or ``read``.
        name: Its name, with its configuration.
        cluster: The logical cluster of the configuration.
        key: The key that tells it apart from others of the review.
        answer: The answer, None if there is none.
        error: The reason why there is no answer.
    """

    kind: str
    name: str
    cluster: str
    key: str
    answer: ShownValue | None
    error: str


class ReviewDetail(NamedTuple):
    """One recorded review.

    Attributes:
        verdict: The verdict, as in a summary.
        status: The HTTP status.
        code: Code and reason of a refusal.
        message: The message and the causes of a refusal.
        warnings: The warnings.
        changes: The changes of the object, as lines: ``-`` before, ``+`` after.
        result: The result of an interpreter, or an explanation; None without one.
        calls: The calls that the answer depended on.
        review: The body as JSON.
        redacted: Whether values were replaced by hashes.
    """

    verdict: str
    status: int
    code: str
    message: Sequence[str]
    warnings: Sequence[str]
    changes: Sequence[DiffLine]
    result: ShownValue | None
    calls: Sequence[ShownCall]
    review: str
    redacted: bool


def describe_review(entry: RecordEntry) -> ReviewDetail:
    """Return the parts of a record for its page."""
    record, outcome = entry.record, read_recorded_outcome(entry)
    document = _read_review(entry)
    return ReviewDetail(
        verdict=classify(outcome),
        status=outcome.status,
        code=outcome.code,
        message=outcome.message,
        warnings=outcome.warnings,
        changes=list_changes(document, outcome.patch),
        result=None if outcome.result is None else show_value(outcome.result, MAX_CHARACTERS),
        calls=[_describe_call(one) for one in record.calls],
        review=format_json(document, MAX_CHARACTERS),
        redacted=record.redacted,
    )


def list_changes(review: JSON, patch: JSON) -> list[DiffLine]:
    """Return the changes that a patch makes to the object of a review, as lines.

    Args:
        review: The review.
        patch: The operations, or the reason why they cannot be read; None without a patch.
    """
    if patch is None:
        return []
    before = as_object(as_object(review).get("request")).get("object")
    if isinstance(patch, str):
        return [DiffLine(" ", patch)]
    try:
        after = apply(before, patch)
    except PatchError as error:
        return [DiffLine(" ", f"the patch does not apply: {error}")]
    return list(describe_difference(OutcomeDifference("object", before, after)))


def _read_review(entry: RecordEntry) -> JSON:
    try:
        body = unwrap_body(entry.record.review)
    except BodyError as error:
        return str(error)
    try:
        document: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")
    return document


def _describe_call(call: RecordedCall) -> ShownCall:
    name = f"{call.configuration}/{call.name}" if call.configuration else call.name
    answer = None if call.answer is msgspec.UNSET else _show_answer(call.answer)
    return ShownCall(call.kind, name, call.cluster, call.key, answer, call.error)


def _show_answer(raw: msgspec.Raw) -> ShownValue:
    try:
        value: JSON = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = bytes(raw).decode(errors="replace")
    return show_value(value, _MAX_ANSWER)


def format_json(value: JSON, limit: int) -> str:
    """Return a value as indented JSON, cut to a number of characters."""
    return shorten(_dump(value), limit)


def _dump(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
