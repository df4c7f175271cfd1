"""The result of one replayed review."""

from app.console.views.reviews.changes import describe_outcome, find_state
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
