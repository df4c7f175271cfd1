"""The lines about a change that people read."""

from typing import Any

import pytest

from fleethook.recordings.replay.decision_changes import Change, Subject
from fleethook.recordings.replay.describe import MAX_LINES, DiffLine, describe_change, describe_patch
from fleethook.recordings.replay.outcome import Difference

SUBJECT = Subject("Pod", "n", "p", "UPDATE", "")


def describe(*differences: Difference, missing: tuple[tuple[str, str], ...] = ()) -> list[str]:
    change = Change("key", (), "/mutate", "", "", SUBJECT, "", "", "file", 1, False, differences, missing)
    return [f"{sign}{text}" for sign, text in describe_change(change)]


def test_missing_answers_come_first() -> None:
    assert describe(missing=(("webhook c/w", "it has no recorded answer"),)) == [
        " webhook c/w: it has no recorded answer"
    ]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("allowed", "denied", [" verdict", "-allowed", "+denied"]),
        ("", "denied", [" verdict", '-""', "+denied"]),
        (200, None, [" verdict", "-200", "+null"]),
        ({"é": [1]}, True, [" verdict", '-{"é": [1]}', "+true"]),
    ],
)
def test_single_values_are_shown_before_and_after(before: Any, after: Any, lines: list[str]) -> None:
    assert describe(Difference("verdict", before, after)) == lines


def test_only_texts_that_were_added_or_removed_are_shown() -> None:
    assert describe(Difference("warnings", ("a", "b"), ("b", "c"))) == [" warnings", "-a", "+c"]


def test_repeated_texts_differ_in_number() -> None:
    assert describe(Difference("warnings", ("a", "a", "b"), ("a", "b"))) == [
        " warnings",
        " they differ in number: 3 were recorded, 2 now",
    ]


def test_each_operation_on_an_object_shows_its_path_and_values() -> None:
    before = {"spec": {"replicas": 1, "gone": "x", "same": "s" * 200}}
    after = {"spec": {"replicas": 2, "new": {"a": None}, "same": "s" * 200}}
    assert sorted(describe(Difference("object", before, after))) == sorted(
        [
            " object /spec/replicas", "-1", "+2",
            " object /spec/gone", "-x",
            " object /spec/new", '+{"a": null}',
        ]
    )  # fmt: skip


def test_removed_elements_are_shown_with_the_values_that_they_have_at_that_step() -> None:
    before, after = {"list": ["a", "b", "c", "d" * 200]}, {"list": ["d" * 200]}
    removed = [text for text in describe(Difference("object", before, after)) if text.startswith("-")]
    assert sorted(removed) == ["-a", "-b", "-c"]


def test_an_object_that_becomes_text_ends_the_lines() -> None:
    assert describe(Difference("object", {"a": 1}, "damaged")) == [" object", '-{"a": 1}', "+damaged"]


def test_the_patch_turns_the_recorded_object_into_the_other_one() -> None:
    assert describe_patch(Difference("object", {"a": 1}, {"a": 2})) == [{"op": "replace", "path": "/a", "value": 2}]


def test_long_values_and_paths_are_shortened() -> None:
    lines = describe(Difference("object", {}, {"n" * 500: "v" * 500}))
    assert [len(one) < 260 for one in lines] == [True, True]
    assert lines[0].startswith(" object /nnn")


@pytest.mark.parametrize(("count", "is_cut"), [(MAX_LINES - 1, False), (MAX_LINES, True), (1000, True)])
def test_lines_beyond_the_limit_are_left_out(count: int, *, is_cut: bool) -> None:
    texts = tuple(f"warning {number}" for number in range(count))
    lines = describe(Difference("warnings", (), texts))
    assert len(lines) == min(count + 1, MAX_LINES)
    assert ("left out" in lines[-1]) is is_cut


def test_a_line_has_a_sign_and_a_text() -> None:
    change = Change("k", (), "", "", "", SUBJECT, "", "", "", 1, False, (Difference("status", 200, 500),), ())
    assert describe_change(change) == [DiffLine(" ", "status"), DiffLine("-", "200"), DiffLine("+", "500")]
