"""One recorded review."""

from typing import Any

from fleethook.console.reviews.detail import (
    describe_review,
    list_changes,
)
from fleethook.recordings.recording_format import RecordedCall
from fleethook.recordings.replay.replay import DiffLine
from tests.console.reviews.test_review_index import asked, entry_of
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
    made = [RecordedCall(**{**one, **({"answer": _raw(one["answer"])} if "answer" in one else {})}) for one in calls]
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


def test_bodies_of_any_shape_are_shown() -> None:
    assert describe_review(entry_of({"text": "<script>"})).review == "<script>"
    assert describe_review(entry_of({"base64": "*"})).review.startswith("the body is damaged")
