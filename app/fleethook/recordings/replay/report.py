"""The report of a replay: counts, groups of changes, the lines about a change, and the problems of the input.

A group keeps one example, so the size of the report does not grow with the recordings.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import PatchError, apply, diff, resolve_pointer
from fleethook.recordings.recording_format import RecordProblem
from fleethook.recordings.replay.decision_changes import UNDECIDABLE, ChangedDecision, OutcomeDifference
from fleethook.recordings.replay.recorded_calls import CallName
from fleethook.recordings.replay.replay import Replayed

MAX_PROBLEMS: Final = 20
"""Problems that are shown; all of them are counted."""


class GroupName(NamedTuple):
    """The common facts of changes that probably have one cause."""

    kinds: tuple[str, ...]
    route: str
    cluster: str
    about: str


class Group:
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
        is_complete: Whether all input was replayed.
    """

    def __init__(self) -> None:
        """Prepare an empty report."""
        self.reviews = 0
        self.same = 0
        self.changed = 0
        self.undecidable = 0
        self.skipped: Final[Counter[str]] = Counter()
        self.groups: Final[dict[GroupName, Group]] = {}
        self.unasked: Final[Counter[CallName]] = Counter()
        self.problems: Final[list[RecordProblem]] = []
        self.problem_count = 0
        self.is_complete = False

    def add(self, one: Replayed) -> None:
        """Count the result of a review."""
        self.reviews += 1
        record = one.entry.record
        if one.unknown_route:
            self.add_problem(
                RecordProblem(one.entry.file, one.entry.line, f"this fleethook has no route {record.route}")
            )
            self.skipped["this fleethook lacks the route"] += 1
            return
        if one.skipped:
            self.skipped[one.skipped] += 1
            return
        self.unasked.update(one.unasked)
        if one.change is None:
            self.same += 1
            return
        is_undecidable = one.change.kinds == (UNDECIDABLE,)
        self.undecidable += is_undecidable
        self.changed += not is_undecidable
        self._find_group(one.change).count += 1

    def add_problem(self, problem: RecordProblem) -> None:
        """Count a problem of the input."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    @property
    def passes(self) -> bool:
        """Whether no review has a different outcome."""
        return not self.changed and not self.undecidable

    def _find_group(self, change: ChangedDecision) -> Group:
        name = GroupName(change.kinds, change.route, change.cluster, change.about)
        return self.groups.setdefault(name, Group(name, change))


MAX_LINES: Final = 40
"""Lines about one change."""
_MAX_LENGTH: Final = 200
_TREES: Final = ("object", "result")

Sign = Literal[" ", "-", "+"]


class DiffLine(NamedTuple):
    """One line: ``-`` for the record, ``+`` for the answer now, and a blank for the place of the difference.

    Attributes:
        sign: The sign.
        text: The text, one line.
    """

    sign: Sign
    text: str


def describe_change(change: ChangedDecision) -> list[DiffLine]:
    """Return the lines about a change, `MAX_LINES` at most."""
    lines = [DiffLine(" ", f"{call}: {reason}") for call, reason in change.missing]
    for one in change.differences:
        lines += describe_difference(one)
        if len(lines) > MAX_LINES:
            break
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 1], DiffLine(" ", "further lines are left out; --output json has all of them")]


def describe_patch(difference: OutcomeDifference) -> list[JSONObject]:
    """Return the RFC 6902 patch that turns the recorded object or result into that of the replay."""
    return diff(difference.before, difference.after)


def describe_difference(difference: OutcomeDifference) -> Iterator[DiffLine]:
    """Yield the lines about one difference; about an object or a result, at most `MAX_LINES` places."""
    aspect, before, after = difference
    if aspect in _TREES:
        yield from _describe_trees(difference)
        return
    yield DiffLine(" ", aspect)
    if isinstance(before, tuple) and isinstance(after, tuple):
        yield from (_make_line("-", one) for one in before if one not in after)
        yield from (_make_line("+", one) for one in after if one not in before)
        if set(before) == set(after):
            yield DiffLine(" ", f"the numbers differ: {len(before)} recorded, {len(after)} now")
        return
    yield _make_line("-", before)
    yield _make_line("+", after)


def _describe_trees(difference: OutcomeDifference) -> Iterator[DiffLine]:
    current = difference.before
    for operation in describe_patch(difference)[:MAX_LINES]:
        path = operation["path"]
        yield DiffLine(" ", shorten(f"{difference.aspect} {path}".rstrip(), _MAX_LENGTH))
        if operation["op"] != "add":
            yield _make_line("-", resolve_pointer(current, path))
        if operation["op"] != "remove":
            yield _make_line("+", operation["value"])
        try:
            current = apply(current, [operation])
        except PatchError:  # a difference of the type itself, such as an object that is now text
            return


def _make_line(sign: Sign, value: JSON) -> DiffLine:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_encode)
    return DiffLine(sign, shorten(text or '""', _MAX_LENGTH))


def _encode(value: object) -> JSON:
    return msgspec.to_builtins(value)
