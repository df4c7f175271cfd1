"""Asks recorded reviews again, compares the outcomes, and reports groups of changes and problems of the input.

A group keeps one example, so the size of the report does not grow with the recordings.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON
from fleethook.outbound.calls_and_retries import OUTGOING
from fleethook.recordings.recording_format import (
    BodyError,
    CallName,
    Record,
    RecordedCall,
    RecordEntry,
    RecordProblem,
    unwrap_body,
)
from fleethook.recordings.replay.decision_changes import (
    UNDECIDABLE,
    ChangedDecision,
    Outcome,
    RecordPlace,
    compare_outcomes,
    make_change,
    read_outcome,
)
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.http_checks import Endpoint

UNRECORDED: Final = "the call was not recorded"

_MAX_TITLE: Final = 200


class ReviewCalls:
    """The recorded answers of one review, and the calls that a replay of the review makes.

    Attributes:
        missing: Calls without a recorded answer, in their order, each with the reason. The review is undecidable then.
        asked: Names of the webhooks that the replay asked.
        after: Functions to call after the review.
    """

    def __init__(self, calls: Sequence[RecordedCall] = ()) -> None:
        """Prepare; ``calls`` are those of the record."""
        self.missing: Final[dict[CallName, str]] = {}
        self.asked: Final[dict[CallName, None]] = {}
        self.after: Final[list[Callable[[], None]]] = []
        # Calls by kind, cluster, name and key. The queue of a call whose answers are all used stays.
        self._left: Final[dict[tuple[str, str, str, str], deque[RecordedCall]]] = {}
        for call in calls:
            self._left.setdefault((call.kind, call.cluster, call.name, call.key), deque()).append(call)

    def take(self, kind: str, name: str, key: str, *, cluster: str, configuration: str = "") -> RecordedCall | None:
        """Return the next recorded answer of a call, None if there is none; the call then counts as missing.

        Args:
            kind: As in `fleethook.recordings.recording_format.RecordedCall`, and so are the other arguments.
            name: The name.
            key: The key.
            cluster: The logical cluster.
            configuration: The configuration, for people.
        """
        # A read has no name of its own: its key is the name of the object, or the question.
        title = CallName(kind, configuration, shorten(f"{name} {key}", _MAX_TITLE) if kind == "read" else name)
        if kind == "webhook":
            self.note_asked(title)
        found = self._left.get((kind, cluster, name, key))
        if found:
            return found.popleft()
        self.note_missing(title, "no recorded answer" if found is None else "too few recorded answers")
        return None

    def note_asked(self, title: CallName) -> None:
        """Note a webhook that the replay asks."""
        self.asked[title] = None

    def note_missing(self, title: CallName, reason: str) -> None:
        """Note a call that a replay cannot answer; the first reason is kept."""
        self.missing.setdefault(title, reason)

    def list_unasked(self) -> list[CallName]:
        """Return the webhooks that the recorded review asked and the replay did not."""
        recorded = {CallName(call.kind, call.configuration, call.name) for each in self._left.values() for call in each}
        return sorted(name for name in recorded if name.kind == "webhook" and name not in self.asked)


current_calls: Final[ContextVar[ReviewCalls | None]] = ContextVar("current_calls", default=None)
"""The calls of the review that is being replayed."""


def find_current() -> ReviewCalls:
    """Return the calls of the review that is being replayed; without one, no call has a recorded answer."""
    return current_calls.get() or ReviewCalls()


def read_answer(call: RecordedCall) -> JSON:
    """Return the answer of a call; raises ValueError."""
    if call.answer is msgspec.UNSET:
        raise ValueError("it has neither an answer nor an error")
    return msgspec.json.decode(call.answer)


OFFLINE: Final[dict[str, Any]] = {
    "manifests": None, "kubeconfig": None, "context": None, "in_cluster": False, "kcp": False, "cert_secret": None,
    "registration": "off", "controller": False, "interpreter_registration": "off",
    "host": "127.0.0.1", "client_ca_file": None, "dispatch_callers": [], "dispatch_open": "loopback",
    "log_reviews": False, "record": None,
}  # fmt: skip
"""The settings of a replay: it reads objects itself, watches nothing and writes nothing."""


_BAD_REQUEST: Final = 400
_DECIDED: Final = (200, _BAD_REQUEST)
_OVERLOAD: Final = "try again later"
_TOO_MANY_REQUESTS: Final = "429"
_HOPS: Final = [(name.lower().encode(), value.encode()) for name, value in OUTGOING.items()]

FindEndpoint = Callable[[str], Endpoint | None]
"""Returns the endpoint that answers reviews on a path."""


class Replayed(NamedTuple):
    """The result of replaying one review.

    Attributes:
        entry: The record.
        change: The difference, None if there is none.
        skipped: The reason why the review was not compared, ``""`` if it was.
        unknown_route: Whether this build has no such route.
        unasked: Webhooks that were asked when the review was recorded, but not in the replay.
    """

    entry: RecordEntry
    change: ChangedDecision | None = None
    skipped: str = ""
    unknown_route: bool = False
    unasked: Sequence[CallName] = ()


Take = Callable[[Replayed], None]
"""Takes a result."""


async def replay_reviews(entries: Sequence[RecordEntry], find_endpoint: FindEndpoint, take: Take) -> None:
    """Replay reviews in their order.

    Args:
        entries: The records. A caller that has many passes them in portions.
        find_endpoint: Finds endpoints, as `fleethook.app.Fleethook.find_endpoint` does.
        take: Takes each result as soon as it is there.
    """
    for entry in entries:
        take(await _replay_one(entry, find_endpoint))
    # A cancellation takes effect at an await that suspends, and most reviews have none.
    await asyncio.sleep(0)


async def _replay_one(entry: RecordEntry, find_endpoint: FindEndpoint) -> Replayed:
    record = entry.record
    if reason := _find_obstacle(record):
        return Replayed(entry, skipped=reason)
    scope = _make_scope(record)
    endpoint = find_endpoint(scope["path"])
    if endpoint is None:
        return Replayed(entry, unknown_route=True)
    try:
        body = unwrap_body(record.review)
    except BodyError as error:
        return Replayed(entry, skipped=str(error))
    calls = ReviewCalls(record.calls)
    current_calls.set(calls)
    begun = endpoint.answer(scope, body)
    reply = begun if isinstance(begun, Reply) else await _wait(begun, calls)
    return _compare(entry, body, reply, calls)


async def _wait(begun: Coroutine[Any, Any, Reply], calls: ReviewCalls) -> Reply:
    try:
        return await begun
    finally:
        for finish in calls.after:
            finish()


def _find_obstacle(record: Record) -> str:
    """Return the reason why a recorded answer cannot be compared, ``""`` if it can.

    Such an answer depends on the state of the recording server, not on the objects and the version of fleethook.
    """
    if record.status not in _DECIDED:
        return f"the server answered HTTP {record.status}"
    for call in record.calls:
        if call.kind == "read" and call.name in ("RequestQuota", "Readiness"):
            return "the server was overloaded" if call.name == "RequestQuota" else "the server was not ready"
    return ""


def _make_scope(record: Record) -> dict[str, Any]:
    """Return the ASGI scope of a request like the recorded one, without the time limit of its caller."""
    raw, _, query = record.path.partition("?")
    query = urlencode([pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != "timeout"])
    return {
        "type": "http",
        "method": "POST",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": _HOPS if record.caller.get("returned") is True else [],
        "client": None,
    }


def _compare(entry: RecordEntry, review: bytes, reply: Reply, calls: ReviewCalls) -> Replayed:
    record, place = entry.record, RecordPlace(entry.file, entry.line)
    if calls.missing:
        return Replayed(entry, make_change(record, place, review, missing=calls.missing.items()))
    unasked = calls.list_unasked() if record.calls else ()
    # Most answers are equal byte by byte, because the replayed review has the same uid.
    if record.status == reply.status and bytes(record.answer) == reply.body:
        return Replayed(entry, unasked=unasked)
    try:
        before = read_outcome(record.status, unwrap_body(record.answer))
    except BodyError as error:
        return Replayed(entry, skipped=str(error))
    if is_overloaded(before):
        return Replayed(entry, skipped="the server was overloaded")
    differences = compare_outcomes(before, read_outcome(reply.status, reply.body), review)
    if not differences:
        return Replayed(entry, unasked=unasked)
    return Replayed(
        entry, make_change(record, place, review, differences=differences, unasked=unasked), unasked=unasked
    )


def is_overloaded(outcome: Outcome) -> bool:
    """Return whether a review was refused for lack of capacity, and not because of its content."""
    return outcome.code.startswith(_TOO_MANY_REQUESTS) and any(_OVERLOAD in text for text in outcome.message)


def batch(entries: Iterator[RecordEntry], *, count: int, size: int) -> Iterator[list[RecordEntry]]:
    """Yield portions of entries. A portion ends at ``count`` entries, or once its reviews have ``size`` bytes."""
    portion, length = list[RecordEntry](), 0
    for entry in entries:
        portion.append(entry)
        length += len(entry.record.review)
        if len(portion) >= count or length >= size:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion


MAX_PROBLEMS: Final = 20
"""Problems that are shown; all of them are counted."""


class GroupName(NamedTuple):
    """The common facts of changes that probably have one cause."""

    kinds: tuple[str, ...]
    route: str
    cluster: str
    about: str


class ChangeGroup:
    """Changes of one cause.

    Attributes:
        name: Their common facts.
        example: The first of them.
        count: Their number.
    """

    def __init__(self, name: GroupName, example: ChangedDecision) -> None:
        self.name: Final = name
        self.example: Final = example
        self.count = 0


class Report:
    """Collects the results of a replay.

    Attributes:
        reviews: The number of records that were read and selected.
        same: The number of reviews with the same outcome.
        changed: The number of reviews with a different outcome.
        undecidable: The number of reviews whose outcome depends on an answer that was not recorded.
        skipped: The number of reviews that were not compared, by reason.
        groups: The changes.
        unasked: For each webhook that is not asked any more, the number of reviews that asked it.
        problems: The first problems of the input.
        problem_count: The number of all problems.
    """

    def __init__(self) -> None:
        """Prepare an empty report."""
        self.reviews = 0
        self.same = 0
        self.changed = 0
        self.undecidable = 0
        self.skipped: Final[Counter[str]] = Counter()
        self.groups: Final[dict[GroupName, ChangeGroup]] = {}
        self.unasked: Final[Counter[CallName]] = Counter()
        self.problems: Final[list[RecordProblem]] = []
        self.problem_count = 0

    def add(self, replayed: Replayed) -> None:
        """Count the result of a review."""
        self.reviews += 1
        record = replayed.entry.record
        if replayed.unknown_route:
            self.add_problem(
                RecordProblem(replayed.entry.file, replayed.entry.line, f"this fleethook has no route {record.route}")
            )
            self.skipped["this fleethook lacks the route"] += 1
            return
        if replayed.skipped:
            self.skipped[replayed.skipped] += 1
            return
        self.unasked.update(replayed.unasked)
        if replayed.change is None:
            self.same += 1
            return
        is_undecidable = replayed.change.kinds == (UNDECIDABLE,)
        self.undecidable += is_undecidable
        self.changed += not is_undecidable
        self._find_group(replayed.change).count += 1

    def add_problem(self, problem: RecordProblem) -> None:
        """Count a problem of the input."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    @property
    def passes(self) -> bool:
        """Whether no review has a different outcome."""
        return not self.changed and not self.undecidable

    def _find_group(self, change: ChangedDecision) -> ChangeGroup:
        name = GroupName(change.kinds, change.route, change.cluster, change.about)
        return self.groups.setdefault(name, ChangeGroup(name, change))
