"""The facts about a recorded review by which it is found."""

from typing import Final

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.recordings.reader import Entry
from fleethook.recordings.recording_format import BodyError, unwrap_body
from fleethook.recordings.replay.decision_changes import Outcome, read_outcome

VERDICTS: Final = ("patched", "allowed", "denied", "answered", "failed", "refused")
"""The verdicts of reviews. ``patched`` is allowed with changes, ``refused`` an HTTP error in place of a verdict."""


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    kind: _Kind = _Kind()
    object: _Object | None = None
    old_object: _Object | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request = _Request()


_decode: Final = msgspec.json.Decoder(_Review).decode


class ReviewSummary(msgspec.Struct, frozen=True, gc=False):
    """The facts about one recorded review.

    Attributes:
        file: The index of its file in the list of files.
        line: Its line.
        time: The RFC 3339 time of its answer, in UTC.
        route: The template of its route.
        cluster: The logical cluster, ``""`` for a plain cluster.
        group: The API group of the object under review.
        kind: Its kind.
        namespace: Its namespace.
        name: Its name, or the beginning of a name that is generated.
        operation: The operation.
        verdict: One of `VERDICTS`.
        seconds: From the review to its answer.
        uid: The uid of the review.
    """

    file: int
    line: int
    time: str
    route: str
    cluster: str
    group: str
    kind: str
    namespace: str
    name: str
    operation: str
    verdict: str
    seconds: float
    uid: str

    @property
    def group_kind(self) -> GroupKind:
        """The kind of the object under review."""
        return GroupKind(self.group, self.kind)


def summarize(entry: Entry, file: int) -> ReviewSummary:
    """Return the facts about a record. Those that its review does not have are ``""``.

    Args:
        entry: The record.
        file: The index of its file.
    """
    record = entry.record
    request = _read_request(entry)
    document = request.object or request.old_object or _Object()
    metadata = document.metadata
    return ReviewSummary(
        file,
        entry.line,
        record.time,
        record.route,
        record.cluster,
        request.kind.group,
        request.kind.kind,
        request.namespace or metadata.namespace,
        request.name or metadata.name or metadata.generate_name,
        request.operation,
        classify(read_recorded_outcome(entry)),
        record.seconds,
        request.uid,
    )


def _read_request(entry: Entry) -> _Request:
    try:
        return _decode(unwrap_body(entry.record.review)).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BodyError):
        return _Request()


def classify(outcome: Outcome) -> str:
    """Return the verdict of an outcome, one of `VERDICTS`."""
    if outcome.verdict == "allowed" and outcome.patch:
        return "patched"
    return outcome.verdict or ("answered" if outcome.status == 200 else "refused")


def read_recorded_outcome(entry: Entry) -> Outcome:
    """Return the outcome in a record; that of a damaged answer has its problem as message."""
    record = entry.record
    try:
        return read_outcome(record.status, unwrap_body(record.answer))
    except BodyError as error:
        return Outcome(record.status, "failed", message=(str(error),))
