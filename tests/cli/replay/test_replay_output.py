"""The four formats of a replay's report."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fleethook.cli.replay.replay_output import MAX_SHOWN, Output, count, list_groups, make_printer, summarize
from fleethook.recordings.reader import Entry, Problem
from fleethook.recordings.replay.decision_changes import UNDECIDABLE, Change, Difference, Subject
from fleethook.recordings.replay.recorded_calls import CallName
from fleethook.recordings.replay.replay import Replayed
from fleethook.recordings.replay.report import MAX_PROBLEMS, Report
from tests.recordings.recordings import MUTATE, line
from tests.recordings.replay.test_replay import entries_of

SUBJECT = Subject("Deployment.apps", "default", "demo", "UPDATE", "")
DIFFERENCE = Difference("object", {"a": 1}, {"a": 2})
(ENTRY,) = entries_of(line({}, {}))


def change(key: str = "k1", **members: Any) -> Change:
    made = Change(
        key, ("object",), MUTATE, "", "YurtAppSet default/demo", SUBJECT, "u", "", "file", 7, False, (DIFFERENCE,), ()
    )
    return made._replace(**members)


def report_of(*changes: Change | None, expected: tuple[str, ...] = (), entry: Entry = ENTRY) -> Report:
    report = Report(expected)
    for one in changes:
        report.add(Replayed(entry, one))
    report.is_complete = True
    return report


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")


def show(capsys: pytest.CaptureFixture[str], output: Output, report: Report, *changes: Change) -> str:
    printer = make_printer(output)
    for one in changes:
        printer.add(one, is_expected=one.key == "expected")
    printer.end(report)
    return capsys.readouterr().out


def test_the_summary_names_only_the_numbers_that_are_not_zero() -> None:
    assert summarize(report_of(None)) == "1 review: 1 with the same outcome, 0 changed"
    report = report_of(None, change(), change("k2", kinds=(UNDECIDABLE,)), expected=("k1",))
    report.add(Replayed(ENTRY, None, skipped="a reason"))
    report.is_complete = False
    assert summarize(report) == (
        "4 reviews: 1 with the same outcome, 1 changed, 1 undecidable, 1 of these expected, 1 not compared (interrupted)"
    )


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (1024, "1,024 pods")])
def test_numbers_have_a_noun(number: int, text: str) -> None:
    assert count(number, "pod") == text


def test_the_largest_unexpected_group_is_first_and_expected_ones_are_left_out() -> None:
    report = report_of(
        change("a", about="a rare one"), change("b", about="often"), change("c", about="often"), change("d", about="known"),
        expected=("d",),
    )  # fmt: skip
    assert [group.name.about for group in list_groups(report)] == ["often", "a rare one"]


def test_text_shows_an_example_of_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(change(cluster="ws1", redacted=True), change("k2", cluster="ws1"))
    lines = [one.rstrip() for one in show(capsys, Output.TEXT, report).splitlines()]
    assert lines == [
        f"object: YurtAppSet default/demo, {MUTATE} in ws1: 2 reviews",
        "  for example Deployment.apps default/demo (UPDATE), file:7, change k1, redacted",
        "    object /a",
        "      - 1",
        "      + 2",
        "2 reviews: 0 with the same outcome, 2 changed",
    ]


def test_a_body_that_is_no_review_is_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    shown = show(capsys, Output.TEXT, report_of(change(subject=Subject("", "", "", "", ""), about="")))
    assert "object: no object, " in shown
    assert "for example a body that is no review, file:7" in shown


def test_notes_name_webhooks_skipped_reviews_and_absent_changes(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(expected=("gone",))
    report.add(Replayed(ENTRY, None, unasked=(CallName("webhook", "c", "w"),)))
    report.add(Replayed(ENTRY, None, skipped="the caller is unknown"))
    notes = [
        "not asked any more: webhook c/w (in 1 review)",
        "not compared: 1 review, because the caller is unknown",
        "expected, but not found: change gone",
    ]
    assert [line.rstrip() for line in show(capsys, Output.TEXT, report).splitlines()][:3] == notes
    report.is_complete = False
    assert notes[2] not in show(capsys, Output.TEXT, report)


@pytest.mark.parametrize("output", [Output.TEXT, Output.MARKDOWN])
def test_groups_beyond_the_limit_are_counted(capsys: pytest.CaptureFixture[str], output: Output) -> None:
    report = report_of(*(change(str(number), about=f"cause-{number}") for number in range(MAX_SHOWN + 1)))
    shown = show(capsys, output, report)
    assert "and 1 further kind of changes" in shown.lower()
    assert shown.lower().count("for example") == MAX_SHOWN


@pytest.mark.parametrize("output", [Output.TEXT, Output.MARKDOWN, Output.JUNIT])
def test_problems_go_to_standard_error(capsys: pytest.CaptureFixture[str], output: Output) -> None:
    report = report_of()
    for number in range(MAX_PROBLEMS + 2):
        report.add_problem(Problem("file", number, "it is damaged"))
    make_printer(output).end(report)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MAX_PROBLEMS + 1
    assert "it is damaged" in lines[0]
    assert lines[-1] == "2 further problems of the input"


def test_markdown_escapes_names_and_fences_that_a_value_contains(capsys: pytest.CaptureFixture[str]) -> None:
    difference = Difference("message", ("```",), ("<b>\x1b[0m",))
    report = report_of(change(about="a|b_<c>&", kinds=("message",), differences=(difference,)))
    lines = show(capsys, Output.MARKDOWN, report).splitlines()
    assert f"| message | a\\|b\\_\\<c\\>&amp; | {MUTATE} |  | 1 |" in lines
    start, end = lines.index("````diff"), lines.index("````")
    assert lines[start + 1 : end] == ["  message", "- ```", "+ <b>\\x1b[0m"]


def test_junit_has_a_case_for_each_route_group_and_absent_change(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(change(differences=(Difference("verdict", "allowed", "\x1b"),)), expected=("gone",))
    (other,) = entries_of(line({}, {}, route="/other"))
    report.add(Replayed(other, None))
    suite = ET.fromstring(show(capsys, Output.JUNIT, report))
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    cases = {(one.get("classname"), one.get("name")): one.find("failure") for one in suite.iter("testcase")}
    assert list(cases) == [
        ("/other", "1 review"), (MUTATE, f"object: YurtAppSet default/demo, {MUTATE}"), ("expected", "gone"),
    ]  # fmt: skip
    passed, failed, absent = cases.values()
    assert passed is None
    assert failed is not None
    assert (failed.text or "").splitlines()[2:] == ["  verdict", "- allowed", "+ \\x1b"]
    assert absent is not None


def test_json_has_each_change_and_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    changes = [change(), change("expected", differences=(), missing=(("webhook c/w", "no answer"),))]
    report = report_of(*changes, expected=("expected", "gone"))
    found = json.loads(show(capsys, Output.JSON, report, *changes))
    first, second = found["changes"]
    assert (first["expected"], second["expected"]) == (False, True)
    patch = [{"op": "replace", "path": "/a", "value": 2}]
    assert first["differences"] == [{"aspect": "object", "patch": patch}]
    assert first["subject"]["name"] == "demo"
    assert second["missing"] == [{"call": "webhook c/w", "reason": "no answer"}]
    assert (found["absent"], found["summary"]["changed"], found["summary"]["complete"]) == (["gone"], 2, True)
    assert found["groups"][0] == {
        "kinds": ["object"], "route": MUTATE, "cluster": "", "about": "YurtAppSet default/demo",
        "reviews": 2, "expected": 1, "example": "k1",
    }  # fmt: skip


def test_json_without_changes_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(show(capsys, Output.JSON, report_of(None)))
    assert (found["changes"], found["summary"]["same"]) == ([], 1)
