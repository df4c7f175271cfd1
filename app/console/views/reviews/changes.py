"""The result of asking one review again."""

from collections.abc import Sequence
from typing import NamedTuple

from app.records.changes import UNDECIDABLE
from app.records.describe import DiffLine, describe_change
from app.records.replay import Replayed


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
