from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleethook.cluster.store import PartState
from fleethook.console.attention import (
    MAX_LINES,
    MAX_OBJECTS,
    MAX_USERS,
    Attention,
    AttentionLine,
    FindingCount,
    FirstSeen,
    ObjectFinding,
    join_attention,
    list_object_lines,
    list_review_lines,
    list_source_lines,
    read_since,
)
from fleethook.console.rendering import show_time
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.model.gvk import GroupKind

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)


def line(severity: Any = "error", about: str = "a", *, reason: str = "r", since: str = "") -> AttentionLine:
    return AttentionLine(severity, about, reason, f"/{about}", since)


def test_the_worst_lines_of_all_parts_are_first() -> None:
    found = join_attention(
        [
            Attention([line("warning", "a"), line("waiting", "b")]),
            Attention([line("error", "d"), line("error", "c"), line("failing", "e")]),
        ]
    )
    assert [(one.severity, one.about) for one in found.lines] == [
        ("failing", "e"), ("error", "c"), ("error", "d"), ("waiting", "b"), ("warning", "a"),
    ]  # fmt: skip


def test_a_list_is_current_once_all_parts_are() -> None:
    assert join_attention([Attention(), Attention()]).is_current
    assert not join_attention([Attention(), Attention(is_current=False)]).is_current


def test_problems_and_findings_of_all_parts_are_joined() -> None:
    warning, error = FindingCount("warning", "b", "K", 2, "/b"), FindingCount("error", "z", "K", 1, "/z")
    found = join_attention([Attention(counts=[warning], problems=["x"]), Attention(counts=[error], problems=["y"])])
    assert (found.counts, found.problems) == ([error, warning], ["x", "y"])


def test_the_lines_are_bounded_and_all_are_counted() -> None:
    found = join_attention([Attention([line(about=str(number)) for number in range(MAX_LINES + 5)])])
    assert (len(found.lines), found.total) == (MAX_LINES, MAX_LINES + 5)


def test_a_line_without_a_time_has_that_of_the_first_visit() -> None:
    seen = FirstSeen()
    seen.fill("jane", [line()], NOW)
    later = seen.fill("jane", [line(reason="other"), line(about="b"), line(since="x")], NOW + timedelta(hours=1))
    assert [one.since for one in later] == ["first seen 2026-01-01 12:30:20", "first seen 2026-01-01 13:30:20", "x"]


def test_the_age_of_a_line_counts_from_the_second_of_the_first_visit() -> None:
    [first] = FirstSeen().fill("jane", [line()], NOW)
    assert "(10 s ago)" in show_time(first.since.removeprefix("first seen "), NOW + timedelta(seconds=10))


def test_a_line_that_was_gone_begins_again() -> None:
    seen = FirstSeen()
    seen.fill("jane", [line()], NOW)
    seen.fill("jane", [], NOW)
    assert seen.fill("jane", [line()], NOW + timedelta(hours=1))[0].since == "first seen 2026-01-01 13:30:20"


def test_another_user_does_not_make_a_line_begin_again() -> None:
    seen = FirstSeen()
    seen.fill("jane", [line()], NOW)
    seen.fill("joe", [], NOW)
    assert seen.fill("jane", [line()], NOW + timedelta(hours=1))[0].since == "first seen 2026-01-01 12:30:20"


def test_the_users_are_bounded() -> None:
    seen = FirstSeen()
    for number in range(MAX_USERS + 1):
        seen.fill(str(number), [line()], NOW)
    later = NOW + timedelta(hours=1)
    assert seen.fill("1", [line()], later)[0].since == "first seen 2026-01-01 12:30:20"
    assert seen.fill("0", [line()], later)[0].since == "first seen 2026-01-01 13:30:20"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T12:00:00Z", "2026-01-01 12:00:00"),
        ("2026-01-01T12:00:00+02:00", "2026-01-01 10:00:00"),
        ("2026-01-01T12:00:00", "2026-01-01 12:00:00"),
        ("yesterday", ""),
        (None, ""),
        (5, ""),
        ("0001-01-01T00:00:00+14:00", ""),
    ],
)
def test_times_of_conditions_are_shown_in_utc(text: Any, expected: str) -> None:
    assert read_since(text) == expected


def test_only_failing_parts_of_a_source_have_a_line() -> None:
    parts = [
        PartState("manifests", synced=True, detail="bad.yaml: line 1", age=5.0, failing=True),
        PartState("pods", synced=True, detail="", age=1.0, failing=False),
        PartState("crds", synced=False, detail="", age=None, failing=False),
    ]
    assert list_source_lines(parts) == [
        AttentionLine(
            "failing",
            "Source manifests",
            "it cannot be read, so pages show old objects: bad.yaml: line 1",
            "/#sources",
        )
    ]


def review(verdict: str, time: str, *, route: str = "/r", kind: str = "Deployment", name: str = "w") -> ReviewSummary:
    return ReviewSummary(0, 1, time, route, "", "apps", kind, "ns", name, "UPDATE", verdict, 0.1, "u")


REVIEWS = (
    review("failed", "2026-01-01T12:05:00Z", name="last"),
    review("failed", "2026-01-01T12:01:00Z", name="first"),
    review("denied", "2026-01-01T12:01:00Z"),
    review("refused", "2026-01-01T12:02:00Z", route="/s", kind="Secret", name=""),
)


def test_reviews_without_a_decision_have_a_line_for_each_route_and_verdict() -> None:
    assert list_review_lines(REVIEWS, None) == [
        AttentionLine(
            "failing",
            "Reviews of /r",
            "2 recorded reviews failed; the last one was UPDATE of Deployment last",
            "/reviews?verdict=failed",
            "2026-01-01 12:01:00",
        ),
        AttentionLine(
            "failing",
            "Reviews of /s",
            "1 recorded review refused; the last one was UPDATE of Secret",
            "/reviews?verdict=refused",
            "2026-01-01 12:02:00",
        ),
    ]


def test_reviews_of_other_kinds_than_the_permitted_ones_have_no_line() -> None:
    assert [one.about for one in list_review_lines(REVIEWS, {GroupKind("apps", "Deployment")})] == ["Reviews of /r"]


def found(level: str, about: str, text: str, code: str = "c") -> ObjectFinding:
    return ObjectFinding(level, code, "O", about, text)


def list_lines(*findings: ObjectFinding) -> list[AttentionLine]:
    addresses = {one.about: f"/{one.about}" for one in findings}
    return list_object_lines(findings, addresses, lambda code, kind: f"/{code}/{kind}")


def test_findings_about_one_object_are_one_line_with_the_worst_one() -> None:
    assert list_lines(
        found("warning", "a", "three"),
        found("error", "a", "one"),
        found("error", "a", "two"),
        found("error", "b", "four"),
        found("warning", "c", "five"),
        found("warning", "c", "six"),
        found("warning", "c", "seven", "d"),
    ) == [
        AttentionLine("error", "a", "one (and 1 more error, 1 warning)", "/a"),
        AttentionLine("error", "b", "four", "/b"),
        AttentionLine("warning", "c", "five (and 2 more warnings)", "/c"),
    ]


def test_a_warning_that_many_objects_have_is_one_line() -> None:
    names = [str(number) for number in range(MAX_OBJECTS + 1)]
    repeated = [found("warning", name, f"text {name}") for name in names]
    other = found("warning", "3", "other")
    few = found("error", "4", "wrong")
    assert list_lines(*repeated, other, few) == [
        AttentionLine("error", "4", "wrong", "/4"),
        AttentionLine("warning", "3", "other", "/3"),
        AttentionLine("warning", "6 Os", "text 0 (and 5 more warnings like it)", "/c/O"),
    ]
    assert len(list_lines(*repeated[1:])) == MAX_OBJECTS


def test_errors_of_many_objects_have_a_line_each() -> None:
    assert len(list_lines(*(found("error", str(number), "wrong") for number in range(2 * MAX_OBJECTS)))) == 10
