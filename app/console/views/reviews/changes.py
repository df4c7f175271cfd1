"""The changes that a replay of recorded reviews found, as a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.records.changes import UNDECIDABLE, Change
from app.records.describe import DiffLine, describe_change
from app.records.replay import Replayed

MAX_ROWS: Final = 200
"""Groups of changes in a table."""


class Outcome(NamedTuple):
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


class Row(NamedTuple):
    """Changes of one cause.

    Attributes:
        kinds: The parts of the outcome that differ.
        route: The template of the route.
        cluster: The logical cluster.
        about: The common cause: an owner, webhooks or a kind.
        number: Their number.
        example: The first of them.
        lines: The lines about it.
    """

    kinds: Sequence[str]
    route: str
    cluster: str
    about: str
    number: int
    example: Change
    lines: Sequence[DiffLine]


class Batch(NamedTuple):
    """The result for several reviews.

    Attributes:
        states: The number of reviews by state, as in `Outcome`.
        skipped: The number of reviews that were not compared, by reason.
        rows: The groups of changes, the largest first.
        left_out: The number of further groups.
    """

    states: Mapping[str, int]
    skipped: Mapping[str, int]
    rows: Sequence[Row]
    left_out: int


def describe_outcome(one: Replayed) -> Outcome:
    """Return the result of replaying one review."""
    state, text = find_state(one), one.skipped
    if one.unknown_route:
        text = f"this fleethook has no route {one.entry.record.route}"
    lines = () if one.change is None else describe_change(one.change)
    return Outcome(state, text, lines, [str(name) for name in one.unasked])


def find_state(one: Replayed) -> str:
    """Return the state of a replayed review, as in `Outcome`."""
    if one.skipped or one.unknown_route:
        return "skipped"
    if one.change is None:
        return "same"
    return UNDECIDABLE if UNDECIDABLE in one.change.kinds else "changed"


def group_changes(results: Sequence[Replayed]) -> Batch:
    """Return the table of the changes of several reviews."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for one in results:
        if (change := one.change) is not None:
            groups.setdefault((change.kinds, change.route, change.cluster, change.about), []).append(change)
    ordered = sorted(groups.values(), key=len, reverse=True)
    rows = [
        Row(first.kinds, first.route, first.cluster, first.about, len(group), first, describe_change(first))
        for group in ordered[:MAX_ROWS]
        for first in group[:1]
    ]
    reasons = Counter(describe_outcome(one).text for one in results if find_state(one) == "skipped")
    return Batch(Counter(map(find_state, results)), reasons, rows, len(ordered) - len(rows))
