"""The table of changes of many replayed reviews."""

from fleethook.console.reviews import batch
from fleethook.console.reviews.batch import ChangedReview, describe_example, list_rows, select_changed
from fleethook.recordings.replay.decision_changes import Place, make_change
from fleethook.recordings.replay.outcome import Difference
from fleethook.recordings.replay.replay import Replayed
from fleethook.recordings.replay.report import Report
from tests.console.reviews.test_summary import asked, entry_of

ENTRY = entry_of(asked(name="web"))


def changed(aspect: str) -> Replayed:
    difference = Difference(aspect, ("a",), ("b",))
    return Replayed(ENTRY, make_change(ENTRY.record, Place("file", 2), b"{}", differences=[difference]))


def test_the_largest_group_comes_first_and_further_ones_are_left_out(monkeypatch: object) -> None:
    report = Report()
    for one in (changed("warnings"), *(changed("message") for _ in range(3)), Replayed(ENTRY)):
        report.add(one)
    examples = {name: describe_example(ENTRY, group.example) for name, group in report.groups.items()}
    rows = list_rows(report, examples)
    assert [(row.name.kinds, row.total, row.example.lines[0].text) for row in rows] == [
        (("message",), 3, "message"),
        (("warnings",), 1, "warnings"),
    ]
    monkeypatch.setattr(batch, "MAX_ROWS", 1)  # type: ignore[attr-defined]
    assert [row.total for row in list_rows(report, examples)] == [3]


def test_links_have_pages() -> None:
    reviews = [ChangedReview("file", line, "x", ("object",)) for line in range(batch.PAGE_SIZE + 1)]
    assert select_changed(reviews, 0) == (reviews[: batch.PAGE_SIZE], (1, 2, batch.PAGE_SIZE + 1, 0))
    assert select_changed(reviews, 9) == (reviews[batch.PAGE_SIZE :], (2, 2, batch.PAGE_SIZE + 1, batch.PAGE_SIZE))
    assert select_changed([], 1) == ([], (1, 1, 0, 0))
