"""One recorded review."""

from typing import Any

import pytest

from fleethook.console.reviews.detail import (
    MAX_DEPTH,
    describe_review,
    format_json,
    list_changes,
    list_columns,
    show_value,
)
from fleethook.recordings.recording_format import Call
from fleethook.recordings.replay.report import DiffLine
from tests.console.reviews.test_summary import asked, entry_of
from tests.recordings.builders import to_patch

OBJECT = {"spec": {"replicas": 1}, "data": {"password": "c2VjcmV0"}}
PATCH = to_patch({"op": "replace", "path": "/spec/replicas", "value": 3})
PATCHED = {"kind": "AdmissionReview", "response": {"allowed": True, "patch": PATCH, "warnings": ["careful"]}}


def test_a_review_shows_changes_warnings_and_its_body() -> None:
    found = describe_review(entry_of(asked(object=OBJECT), PATCHED, redacted=True))
    assert (found.verdict, found.status, found.warnings, found.redacted) == ("patched", 200, ("careful",), True)
    assert found.changes == [DiffLine(" ", "object /spec/replicas"), DiffLine("-", "1"), DiffLine("+", "3")]
    assert '"replicas": 1' in found.review


def test_a_refusal_shows_code_message_and_causes() -> None:
    status = {
        "code": 422,
        "reason": "Invalid",
        "message": "no",
        "details": {"causes": [{"field": "a", "message": "b"}]},
    }
    found = describe_review(
        entry_of(asked(), {"kind": "AdmissionReview", "response": {"allowed": False, "status": status}})
    )
    assert (found.verdict, found.code, found.message) == ("denied", "422 Invalid", ("no", "a: b"))
    assert found.changes == []


def test_the_asked_webhooks_and_scripts_have_their_answers() -> None:
    calls: list[dict[str, Any]] = [
        {
            "kind": "webhook",
            "name": "w.example.org",
            "key": "k",
            "configuration": "hooks",
            "cluster": "root:a",
            "answer": {"allowed": True},
        },
        {"kind": "script", "name": "s", "key": "k2", "error": "it failed"},
    ]
    made = [Call(**{**one, **({"answer": _raw(one["answer"])} if "answer" in one else {})}) for one in calls]
    webhook, script = describe_review(entry_of(asked(), PATCHED, calls=made)).calls
    assert (webhook.name, webhook.cluster, webhook.error) == ("hooks/w.example.org", "root:a", "")
    assert '"allowed": true' in webhook.answer.text
    assert (script.name, script.answer, script.error) == ("s", None, "it failed")


def _raw(value: Any) -> Any:
    import msgspec  # noqa: PLC0415 - beside its one use

    return msgspec.Raw(msgspec.json.encode(value))


def test_a_result_of_an_interpreter_is_shown() -> None:
    answer = {"kind": "ResourceInterpreterContext", "response": {"uid": "u", "successful": True, "healthy": True}}
    found = describe_review(entry_of(asked(), answer))
    assert '"healthy": true' in found.result.text


def test_patches_that_cannot_be_used_are_explained() -> None:
    document = asked(object=OBJECT)
    assert list_changes(document, None) == []
    assert list_changes(document, "the patch is damaged: x") == [DiffLine(" ", "the patch is damaged: x")]
    (line,) = list_changes(document, [{"op": "remove", "path": "/missing"}])
    assert line.text.startswith("the patch does not apply: ")
    assert list_changes(5, [{"op": "remove", "path": "/a"}])[0].text.startswith("the patch does not apply")


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    ("value", "limit", "is_structure"),
    [
        ({"a": [1, {"b": None}]}, 100, True),
        ([], 100, True),
        ({"a": "x" * 100}, 100, False),
        ("text", 100, False),
        (nest(MAX_DEPTH // 2), 10_000, True),
        (nest(MAX_DEPTH), 10_000, False),
    ],
)
def test_whole_values_with_few_levels_are_structures(value: Any, limit: int, is_structure: bool) -> None:
    assert show_value(value, limit).is_structure is is_structure


def test_the_columns_of_a_table_are_the_members_of_all_rows() -> None:
    assert list_columns([{"b": 1, "a": 2}, {"c": 3, "a": 4}]) == ["b", "a", "c"]
    assert list_columns([{"a": 1}, 5]) == []
    assert list_columns([]) == []


def test_long_values_are_cut() -> None:
    assert format_json("x" * 50, 10) == "x" * 10 + "… (40 characters left out)"
    assert format_json({"a": 1}, 100) == '{\n  "a": 1\n}'


def test_bodies_of_any_shape_are_shown() -> None:
    assert describe_review(entry_of({"text": "<script>"})).review == "<script>"
    assert describe_review(entry_of({"base64": "*"})).review.startswith("the body is damaged")
