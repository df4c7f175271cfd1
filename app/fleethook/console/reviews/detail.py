"""One recorded review: its verdict, the changes of its object, and the webhooks and scripts that were asked."""

import json
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.console.reviews.summary import classify, read_recorded_outcome
from fleethook.model.formats.text import shorten
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, as_object
from fleethook.patch import PatchError, apply
from fleethook.recordings.format import BodyError, Call, unwrap_body
from fleethook.recordings.quoted_values import Hasher, WorkLimitError
from fleethook.recordings.reader import Entry
from fleethook.recordings.redaction import RecordValues, RedactionError, Redactor
from fleethook.recordings.replay.decision_changes import Difference
from fleethook.recordings.replay.report import DiffLine, describe_difference

SECRET: Final = GroupKind("", "Secret")
_redactor: Final = Redactor(Hasher(secrets.token_bytes(32)))


def holds_secret(entry: Entry, group_kind: GroupKind) -> bool:
    """Return whether a record is about a Secret, or has the content or the hashes of one at any place.

    A record that cannot be searched counts as one that has.

    Args:
        entry: The record.
        group_kind: The kind that its review names.
    """
    if group_kind == SECRET:
        return True
    record = entry.record
    try:
        review, answer = (msgspec.json.decode(unwrap_body(one)) for one in (record.review, record.answer))
        calls = msgspec.json.decode(msgspec.json.encode(record.calls))
        return _redactor.redact(RecordValues(review, answer, calls)) is not None
    except (RedactionError, WorkLimitError, RecursionError):
        return True
    except (msgspec.DecodeError, UnicodeDecodeError, BodyError):
        # A body that is no JSON has no object; the page shows it as text, so text that names a Secret is hidden.
        return b"Secret" in bytes(record.review) or b"Secret" in bytes(record.answer)


HIDDEN: Final = "The console does not show Secrets."
MAX_CHARACTERS: Final = 100_000
"""Characters of the shown review."""
_MAX_ANSWER: Final = 2_000


class AskedCall(NamedTuple):
    """A webhook, a script or a read that the answer depended on.

    Attributes:
        kind: ``webhook``, ``script`` or ``read``.
        name: Its name, with its configuration.
        cluster: The logical cluster of the configuration.
        key: The key that tells it apart from others of the review.
        answer: The answer as JSON, shortened; ``""`` if there is none.
        error: The reason why there is no answer.
    """

    kind: str
    name: str
    cluster: str
    key: str
    answer: str
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
        result: The result of an interpreter as JSON, ``""`` without one.
        calls: The calls that the answer depended on.
        review: The body as JSON, ``""`` if it must not be shown.
        hidden: The reason why object and changes are not shown, ``""`` if they are.
        redacted: Whether values were replaced by hashes.
    """

    verdict: str
    status: int
    code: str
    message: Sequence[str]
    warnings: Sequence[str]
    changes: Sequence[DiffLine]
    result: str
    calls: Sequence[AskedCall]
    review: str
    hidden: str
    redacted: bool


def describe_review(entry: Entry, group_kind: GroupKind) -> ReviewDetail:
    """Return the parts of a record for its page. The content of a Secret is never among them.

    Args:
        entry: The record.
        group_kind: The kind of its object.
    """
    record, outcome = entry.record, read_recorded_outcome(entry)
    hidden = HIDDEN if holds_secret(entry, group_kind) else ""
    document = _read_review(entry)
    return ReviewDetail(
        verdict=classify(outcome),
        status=outcome.status,
        code=outcome.code,
        message=() if hidden else outcome.message,
        warnings=() if hidden else outcome.warnings,
        changes=() if hidden else list_changes(document, outcome.patch),
        result="" if hidden or outcome.result is None else format_json(outcome.result, MAX_CHARACTERS),
        calls=[_describe_call(one, hidden=bool(hidden)) for one in record.calls],
        review="" if hidden else format_json(document, MAX_CHARACTERS),
        hidden=hidden,
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
    return list(describe_difference(Difference("object", before, after)))


def _read_review(entry: Entry) -> JSON:
    try:
        body = unwrap_body(entry.record.review)
    except BodyError as error:
        return str(error)
    try:
        document: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")
    return document


def _describe_call(call: Call, *, hidden: bool) -> AskedCall:
    name = f"{call.configuration}/{call.name}" if call.configuration else call.name
    answer = "" if call.answer is msgspec.UNSET or hidden else _format_answer(call.answer)
    return AskedCall(call.kind, name, call.cluster, call.key, answer, "" if hidden else call.error)


def _format_answer(raw: msgspec.Raw) -> str:
    try:
        return format_json(msgspec.json.decode(raw), _MAX_ANSWER)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return shorten(bytes(raw).decode(errors="replace"), _MAX_ANSWER)


def format_json(value: JSON, limit: int) -> str:
    """Return a value as indented JSON, cut to a number of characters."""
    return shorten(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False), limit)
