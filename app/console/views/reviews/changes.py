"""The changes that a replay of recorded reviews found, as a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.console.views.reviews.secret_content import holds_secret
from app.console.views.reviews.summary import summarize
from app.records.changes import UNDECIDABLE, Change
from app.records.describe import DiffLine, describe_change
from app.records.reader import Entry
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
        changes: All of them.
        lines: The lines about the first one; none if it has the content of a Secret.
        hidden: Whether the lines are left out for that reason.
    """

    kinds: Sequence[str]
    route: str
    cluster: str
    about: str
    changes: Sequence[Change]
    lines: Sequence[DiffLine]
    hidden: bool


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
    groups: dict[tuple[object, ...], list[tuple[Change, Entry]]] = {}
    for one in results:
        if (change := one.change) is not None:
            name = (change.kinds, change.route, change.cluster, change.about)
            groups.setdefault(name, []).append((change, one.entry))
    ordered = sorted(groups.values(), key=len, reverse=True)
    rows = [_make_row(group) for group in ordered[:MAX_ROWS]]
    reasons = Counter(describe_outcome(one).text for one in results if find_state(one) == "skipped")
    return Batch(Counter(map(find_state, results)), reasons, rows, len(ordered) - len(rows))


def _make_row(group: Sequence[tuple[Change, Entry]]) -> Row:
    first, entry = group[0]
    hidden = holds_secret(entry, summarize(entry, 0).group_kind)
    lines = () if hidden else describe_change(first)
    return Row(first.kinds, first.route, first.cluster, first.about, [one for one, _ in group], lines, hidden)
