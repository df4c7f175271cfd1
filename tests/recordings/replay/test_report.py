from fleethook.recordings.recording_format import RecordEntry
from fleethook.recordings.replay.decision_changes import ChangedDecision, ReviewedObject
from fleethook.recordings.replay.recorded_calls import CallName
from fleethook.recordings.replay.replay import Replayed
from fleethook.recordings.replay.report import Report
from tests.recordings.recordings import MUTATE, line
from tests.recordings.replay.test_replay import entries_of

(ENTRY,) = entries_of(line({}, {}))


def change(
    name: str = "a", *, about: str = "YurtAppSet default/demo", kinds: tuple[str, ...] = ("object",)
) -> Replayed:
    subject = ReviewedObject("Deployment.apps", "default", name, "UPDATE", about)
    return Replayed(ENTRY, ChangedDecision(kinds, MUTATE, "", about, subject, "u", "", "file", 1, False, (), ()))


def report_of(*results: Replayed) -> Report:
    report = Report()
    for one in results:
        report.add(one)
    report.is_complete = True
    return report


def test_changes_of_one_cause_are_one_group_with_the_first_example() -> None:
    report = report_of(change("a"), change("b"), change("c", about="another"))
    assert [(group.count, group.example.subject.name) for group in report.groups.values()] == [(2, "a"), (1, "c")]
    assert (report.changed, report.passes) == (3, False)


def test_undecidable_reviews_count_apart() -> None:
    report = report_of(change(kinds=("undecidable",)), Replayed(ENTRY), Replayed(ENTRY, skipped="because"))
    assert (report.undecidable, report.changed, report.same, report.reviews) == (1, 0, 1, 3)
    assert report.skipped == {"because": 1}
    assert not report.passes


def test_webhooks_that_are_not_asked_are_no_change() -> None:
    name = CallName("webhook", "hooks", "w.example.org")
    report = report_of(Replayed(ENTRY, unasked=[name]), Replayed(ENTRY, unasked=[name]))
    assert (report.unasked, report.passes) == ({name: 2}, True)


def test_a_route_that_is_unknown_is_a_problem_of_its_record() -> None:
    report = report_of(Replayed(RecordEntry("file", 7, ENTRY.record), unknown_route=True))
    assert [one.place for one in report.problems] == ["file:7"]
