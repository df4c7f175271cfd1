"""The parts of one recorded review that its page shows, and jobs that ask reviews again, some at each request.

A job works only while somebody asks for its page. So a job that nobody watches any more stops without a clock.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.app import Fleethook
from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.console.reviews.review_index import ReviewSummary, classify, read_recorded_outcome
from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON, as_object
from fleethook.patch import PatchError, apply
from fleethook.recordings.recording_format import BodyError, RecordedCall, RecordEntry, unwrap_body
from fleethook.recordings.replay.decision_changes import (
    UNDECIDABLE,
    DiffLine,
    OutcomeDifference,
    describe_change,
    describe_difference,
)
from fleethook.recordings.replay.review_replay import OFFLINE, ChangeGroup, Replayed, Report, batch, replay_reviews
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import Worker

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
    if not all(isinstance(row, dict) for row in rows):
        return []
    return list(dict.fromkeys(name for row in rows for name in as_object(row)))


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
        calls=[_describe_call(call) for call in record.calls],
        review=shorten(_dump(document), MAX_CHARACTERS),
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


def _dump(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


class ReplayOutcome(NamedTuple):
    """The result for one review.

    Attributes:
        state: ``same``, ``changed``, ``undecidable`` or ``skipped``.
        text: The reason why it was not compared, ``""`` if it was.
        lines: The lines about the change: ``-`` was recorded, ``+`` is the answer now.
        unasked: Webhooks that are not asked any more.
    """

    state: str
    text: str
    lines: Sequence[DiffLine]
    unasked: Sequence[str]


def describe_outcome(replayed: Replayed) -> ReplayOutcome:
    """Return the result of replaying one review."""
    state, text = find_state(replayed), replayed.skipped
    if replayed.unknown_route:
        text = f"this fleethook has no route {replayed.entry.record.route}"
    lines = () if replayed.change is None else describe_change(replayed.change)
    return ReplayOutcome(state, text, lines, [str(name) for name in replayed.unasked])


def find_state(replayed: Replayed) -> str:
    """Return the state of a replayed review, as in `ReplayOutcome`."""
    if replayed.skipped or replayed.unknown_route:
        return "skipped"
    if replayed.change is None:
        return "same"
    return UNDECIDABLE if UNDECIDABLE in replayed.change.kinds else "changed"


# Reviews between two pauses for other requests; each takes 0.1 ms, or some milliseconds if a plan is compiled.
_PORTION: Final = 8


class ReviewReplay:
    """Decides with this build and the objects of a store. Webhooks and scripts answer as recorded."""

    def __init__(self, store: Store) -> None:
        """Prepare.

        Args:
            store: The objects, with the indexes of `fleethook.app.list_indexes`. It is still empty: the engines follow
                its changes.
        """
        self._app: Final = Fleethook(Settings(**OFFLINE), log=None, is_replay=True, store=store)
        # The calls of a review are in the context of one task, and an engine may answer only one review at a time.
        self._turn: Final = asyncio.Lock()
        self.version = 0
        """Changes with each object that reviews depend on."""
        store.subscribe(self._note_change)

    async def replay(self, entries: Sequence[RecordEntry]) -> list[Replayed]:
        """Return the result of asking reviews again, in their order."""
        found: list[Replayed] = []
        for start in range(0, len(entries), _PORTION):
            async with self._turn:
                await replay_reviews(entries[start : start + _PORTION], self._app.find_endpoint, found.append)
        return found

    def _note_change(self, key: ObjectKey, _before: Stored | None, _after: object) -> None:
        self.version += key.group_kind not in PARTIAL_KINDS

    async def close(self) -> None:
        """End the threads and the clients of the engines."""
        await self._app.close()


class ChangedReview(NamedTuple):
    """A review with another outcome.

    Attributes:
        file: The file with its record.
        line: The line of the record.
        subject: The object under review.
        kinds: The parts of the outcome that differ.
    """

    file: str
    line: int
    subject: str
    kinds: tuple[str, ...]


MAX_CHANGED: Final = 1_000
"""Changed reviews of a job that have a link; further ones are counted."""
MAX_GROUPS: Final = 50
"""Groups of changes of a job that its page shows."""
REVIEWS_IN_A_REQUEST: Final = 512
_BYTES_IN_A_REQUEST: Final = 32 << 20


class ReplayJob:
    """Reviews that are asked again, in the order of their files and lines.

    Attributes:
        reviews: The reviews that a search found when the job started.
        version: The version of the objects then, as `ReviewReplay.version`.
        report: The result so far, which equals that of ``fleethook replay`` for the same reviews.
        changed: The changed reviews with a link.
        is_stopped: Whether the user stopped the job.
        is_done: Whether all reviews were asked, except those that are not in the files any more.
    """

    def __init__(self, reviews: Sequence[ReviewSummary], version: int, entries: Iterator[RecordEntry]) -> None:
        """Prepare; ``entries`` reads the records of the reviews, and a thread continues it."""
        self.reviews: Final = reviews
        self.version: Final = version
        self.report: Final = Report()
        self.changed: Final[list[ChangedReview]] = []
        self.is_stopped = False
        self.is_done = False
        self._portions: Iterator[list[RecordEntry]] = batch(
            entries, count=REVIEWS_IN_A_REQUEST, size=_BYTES_IN_A_REQUEST
        )
        self._turn: Final = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether another request would ask more reviews."""
        return not (self.is_done or self.is_stopped)

    @property
    def gone(self) -> int:
        """The number of reviews that are not in the files any more."""
        return len(self.reviews) - self.report.reviews if self.is_done else 0

    def list_groups(self) -> list[ChangeGroup]:
        """Return the largest groups of changes, `MAX_GROUPS` at most."""
        return sorted(self.report.groups.values(), key=lambda one: -one.count)[:MAX_GROUPS]

    async def advance(self, replay: ReviewReplay, worker: Worker) -> None:
        """Ask the next reviews."""
        async with self._turn:
            if not self.is_running:
                return
            portion: list[RecordEntry] = await worker.run("", next, self._portions, [])
            for one in await replay.replay(portion):
                self._add(one)
            if not portion or self.report.reviews == len(self.reviews):
                self.is_done = True
                self._close()

    def stop(self) -> None:
        """Ask no further reviews."""
        self.is_stopped = not self.is_done
        self._close()

    def _close(self) -> None:
        """Drop the iterator, which closes its file as soon as no thread continues it."""
        self._portions = iter(())

    def _add(self, one: Replayed) -> None:
        self.report.add(one)
        if (change := one.change) is not None and len(self.changed) < MAX_CHANGED:
            self.changed.append(ChangedReview(change.file, change.line, str(change.subject), change.kinds))
