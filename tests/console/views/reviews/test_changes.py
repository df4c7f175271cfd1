"""The table of changes of replayed reviews."""

from app.console.views.reviews import changes
from app.console.views.reviews.changes import describe_outcome, find_state, group_changes
from app.records.changes import Place, make_change
from app.records.outcome import Difference
from app.records.recorded_calls import CallName
from app.records.replay import Replayed
from tests.console.views.reviews.test_summary import asked, entry_of

ENTRY = entry_of(asked(name="web"))
CALL = CallName("webhook", "hooks", "w.example.org")


def changed(aspect: str = "message", after: object = ("b",)) -> Replayed:
    difference = Difference(aspect, ("a",), after)  # type: ignore[arg-type]
    return Replayed(ENTRY, make_change(ENTRY.record, Place("file", 2), b"{}", differences=[difference]))


def undecidable() -> Replayed:
    missing = {CALL: "it has no recorded answer"}
    return Replayed(ENTRY, make_change(ENTRY.record, Place("file", 2), b"{}", missing=missing.items()))


def test_each_result_has_a_state() -> None:
    results = [
        Replayed(ENTRY),
        changed(),
        undecidable(),
        Replayed(ENTRY, skipped="x"),
        Replayed(ENTRY, unknown_route=True),
    ]
    assert list(map(find_state, results)) == ["same", "changed", "undecidable", "skipped", "skipped"]


def test_the_outcome_of_one_review_explains_itself() -> None:
    assert describe_outcome(Replayed(ENTRY, unasked=[CALL])).unasked == ["webhook hooks/w.example.org"]
    assert (
        describe_outcome(Replayed(ENTRY, unknown_route=True)).text
        == f"this fleethook has no route {ENTRY.record.route}"
    )
    lines = [f"{line.sign}{line.text}" for line in describe_outcome(changed()).lines]
    assert lines == [" message", "-a", "+b"]
    assert describe_outcome(undecidable()).lines[0].text == "webhook hooks/w.example.org: it has no recorded answer"


def test_changes_of_one_cause_are_one_row_and_the_largest_comes_first() -> None:
    results = [changed("warnings"), *(changed() for _ in range(3)), Replayed(ENTRY), Replayed(ENTRY, skipped="too old")]
    batch = group_changes(results)
    assert [(row.kinds, len(row.changes)) for row in batch.rows] == [(("message",), 3), (("warnings",), 1)]
    assert batch.states == {"changed": 4, "same": 1, "skipped": 1}
    assert batch.skipped == {"too old": 1}
    assert batch.rows[0].lines[0].text == "message"
    assert list(batch.rows[0].changes) == [one.change for one in results[1:4]]


def test_further_groups_are_counted(monkeypatch: object) -> None:
    monkeypatch.setattr(changes, "MAX_ROWS", 1)  # type: ignore[attr-defined]
    batch = group_changes([changed("warnings"), changed()])
    assert (len(batch.rows), batch.left_out) == (1, 1)
