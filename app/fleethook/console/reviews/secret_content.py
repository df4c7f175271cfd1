"""Finds the content of Secrets in recorded reviews, by the same rules as the recorder.

`serve --record` replaces it by hashes. A recording of another program, or one that was edited, may still have it.
"""

import secrets
from typing import Final

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.recordings.bodies import BodyError, unwrap_body
from fleethook.recordings.hashing import Hasher
from fleethook.recordings.quoted_values import WorkLimitError
from fleethook.recordings.read.reader import Entry
from fleethook.recordings.redaction import RecordValues, RedactionError, Redactor

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
