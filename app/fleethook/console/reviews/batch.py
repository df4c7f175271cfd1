"""The result of asking many reviews again, as a page shows it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.console.reviews.secret_content import holds_secret
from fleethook.console.reviews.summary import summarize
from fleethook.console.views.paging import Paging, take_page
from fleethook.recordings.read.reader import Entry
from fleethook.recordings.replay.decision_changes import Change
from fleethook.recordings.replay.describe import DiffLine, describe_change
from fleethook.recordings.replay.report import GroupName, Report

MAX_ROWS: Final = 200
"""Groups of changes on a page."""
PAGE_SIZE: Final = 200
"""Links to changed reviews on a page."""


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


class Example(NamedTuple):
    """The difference of one review.

    Attributes:
        lines: The lines about it; none if the review has the content of a Secret.
        hidden: Whether the lines are left out for that reason.
    """

    lines: Sequence[DiffLine]
    hidden: bool


class Row(NamedTuple):
    """Changes of one cause.

    Attributes:
        name: Their common facts.
        total: Their number.
        change: One of them.
        example: Its difference.
    """

    name: GroupName
    total: int
    change: Change
    example: Example


def describe_example(entry: Entry, change: Change) -> Example:
    """Return the difference of a review, without the content of a Secret."""
    hidden = holds_secret(entry, summarize(entry, 0).group_kind)
    return Example(() if hidden else describe_change(change), hidden)


def list_rows(report: Report, examples: Mapping[GroupName, Example]) -> list[Row]:
    """Return the largest groups of changes, at most `MAX_ROWS`."""
    ordered = sorted(report.groups.items(), key=lambda item: item[1].count, reverse=True)
    return [Row(group.name, group.count, group.example, examples[name]) for name, group in ordered[:MAX_ROWS]]


def select_changed(changed: Sequence[ChangedReview], page: int) -> tuple[Sequence[ChangedReview], Paging]:
    """Return a page of links to changed reviews."""
    return take_page(changed, page, PAGE_SIZE)
