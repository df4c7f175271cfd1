"""Changes: the object and the cause of a review that is decided differently."""

import base64
import json
from typing import Any

import msgspec
import pytest

from fleethook.recordings.recording_format import CallName, Record
from fleethook.recordings.replay.decision_changes import (
    MAX_LINES,
    UNDECIDABLE,
    ChangedDecision,
    OutcomeDifference,
    RecordPlace,
    ReviewedObject,
    compare_outcomes,
    describe_change,
    make_change,
    read_outcome,
)
from tests.recordings.recordings import MUTATE, TIME, line

OBJECT = {"metadata": {"name": "a"}, "spec": {"replicas": 1, "list": [1, 2]}}


def admission(**response: Any) -> bytes:
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    ).encode()


def refused(message: str = "no", code: int = 403, reason: str = "Forbidden", **members: Any) -> bytes:
    return admission(allowed=False, status={"message": message, "code": code, "reason": reason, **members})


def patched(*operations: dict[str, Any], **members: Any) -> bytes:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return admission(allowed=True, patch=text, patchType="JSONPatch", **members)


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def explored(kind: str = "ExploreReview", **response: Any) -> bytes:
    return json.dumps({"kind": kind, "response": {"uid": "u", "successful": True, **response}}).encode()


def aspects(before: bytes, after: bytes, *, status: tuple[int, int] = (200, 200)) -> list[str]:
    review = json.dumps({"request": {"object": OBJECT}}).encode()
    outcomes = [read_outcome(*one) for one in zip(status, (before, after), strict=True)]
    return [one.aspect for one in compare_outcomes(outcomes[0], outcomes[1], review)]


ALLOWED = admission(allowed=True)
SCALED = patched(replace("/spec/replicas", 2))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ALLOWED, ALLOWED, []),
        (ALLOWED, refused(), ["verdict", "code", "message"]),
        (refused("no"), refused("never"), ["message"]),
        (refused(code=403), refused(code=422), ["code"]),
        (refused(reason="Forbidden"), refused(reason="Invalid"), ["code"]),
        (refused(), refused(details={"causes": [{"field": "spec", "message": "bad"}]}), ["message"]),
        (ALLOWED, SCALED, ["object"]),
        (SCALED, ALLOWED, ["object"]),
        (SCALED, refused(), ["verdict", "code", "message"]),
        (SCALED, patched(replace("/spec", {"list": [1, 2], "replicas": 2})), []),
        (ALLOWED, patched(replace("/spec/replicas", 1)), []),
        (SCALED, patched(replace("/spec/replicas", 2.0)), ["object"]),
        (SCALED, patched({"op": "remove", "path": "/spec/none"}), ["object"]),
        (ALLOWED, admission(allowed=True, patch="%%%", patchType="JSONPatch"), ["object"]),
        (admission(allowed=True, warnings=["a", "b"]), admission(allowed=True, warnings=["b", "a"]), []),
        (admission(allowed=True, warnings=["a"]), admission(allowed=True, warnings=["a", "a"]), ["warnings"]),
        (ALLOWED, admission(allowed=True, warnings=["a"]), ["warnings"]),
        (ALLOWED, admission(allowed=True, auditAnnotations={"a/b": "c"}), []),
        (explored(healthy=True), explored(healthy=False), ["result"]),
        (explored(status={"a": 1}), explored(status={"a": 2}), ["result"]),
        (explored(status={"a": 1, "b": 2}), explored(status={"b": 2, "a": 1}), []),
        (explored(successful=False, code=500, message="x"), explored(successful=False, code=500, message="y"), ["message"]),
        (explored(healthy=True), explored(successful=False, code=500, message="x"), ["verdict", "code", "message", "result"]),
        (b'{"cluster":"a"}', b'{"cluster":"b"}', ["result"]),
        (b'{"a":1,"b":2}', b'{"b":2, "a":1}', []),
        (b"text", b"other", ["result"]),
    ],
)  # fmt: skip
def test_the_parts_that_differ(before: bytes, after: bytes, expected: list[str]) -> None:
    assert aspects(before, after) == expected


def fail_at(place: str, error: str = "KeyError: 'a'") -> str:
    return f"the rule r failed, and failurePolicy Fail refuses the object: {place}: {error}"


def test_the_place_at_which_a_rule_failed_is_no_difference() -> None:
    before = refused(fail_at("rules.py:6"), 500)
    assert aspects(before, refused(fail_at("edited.py:17"), 500)) == []
    assert aspects(before, refused(fail_at("edited.py:17", "TypeError: a"), 500)) == ["message"]
    warnings = [admission(allowed=True, warnings=[fail_at(place)]) for place in ("a.py:1", "b.py:2")]
    assert aspects(*warnings) == []


def test_a_context_keeps_the_status_of_the_call_apart_from_results() -> None:
    one = explored("ResourceInterpreterContext", status={"code": 200}, rawStatus={"a": 1})
    assert aspects(one, explored("ResourceInterpreterContext", status={"code": 200}, rawStatus={"a": 2})) == ["result"]
    failed = explored("ResourceInterpreterContext", successful=False, status={"code": 500, "message": "x"})
    assert aspects(one, failed) == ["verdict", "code", "message", "result"]


def test_the_patch_of_an_interpreter_changes_its_object() -> None:
    text = base64.b64encode(json.dumps([replace("/spec/replicas", 2)]).encode()).decode()
    assert aspects(explored(), explored(patch=text, patchType="JSONPatch")) == ["object"]


def test_http_errors_compare_by_status_reason_and_message() -> None:
    error = json.dumps({"kind": "Status", "reason": "BadRequest", "message": "m"}).encode()
    other = json.dumps({"kind": "Status", "reason": "BadRequest", "message": "n"}).encode()
    assert aspects(error, error, status=(400, 400)) == []
    assert aspects(error, other, status=(400, 400)) == ["message"]
    assert aspects(error, ALLOWED, status=(400, 200)) == ["status", "verdict", "code", "message"]


PLACE = RecordPlace("reviews.jsonl.gz", 7)
DISPATCH = "/dispatch/mutate"
DIFFERENCE = OutcomeDifference("object", {"a": 1, "b": 1}, {"a": 2, "b": 1})
REQUEST = {
    "uid": "u-1",
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "namespace": "default",
    "operation": "UPDATE",
    "object": {
        "metadata": {
            "name": "demo-x",
            "ownerReferences": [
                {"kind": "Other", "name": "o"},
                {"kind": "YurtAppSet", "name": "demo", "controller": True},
            ],
        }
    },
}


def record_of(**members: Any) -> Record:
    return msgspec.json.decode(line({}, {}, **members), type=Record)


def make(request: Any = REQUEST, *differences: OutcomeDifference, route: str = MUTATE, **rest: Any) -> ChangedDecision:
    review = request if isinstance(request, bytes) else json.dumps({"request": request}).encode()
    return make_change(record_of(route=route), PLACE, review, differences=differences or (DIFFERENCE,), **rest)


def edit(**members: Any) -> dict[str, Any]:
    return {**REQUEST, **members}


def test_a_change_names_its_record_and_object() -> None:
    change = make()
    assert (change.kinds, change.uid, change.time, change.file, change.line) == (
        ("object",),
        "u-1",
        TIME,
        PLACE.file,
        7,
    )
    assert change.subject == ReviewedObject("Deployment.apps", "default", "demo-x", "UPDATE", "YurtAppSet default/demo")
    assert str(change.subject) == "Deployment.apps default/demo-x"
    assert change.about == "YurtAppSet default/demo"
    assert (change.differences, change.missing) == ((DIFFERENCE,), ())


@pytest.mark.parametrize(
    ("request_", "subject"),
    [
        (edit(object={"metadata": {"generateName": "demo-", "name": "demo-abc"}}), "Deployment.apps default/demo-"),
        (edit(object=None, oldObject={"metadata": {"name": "gone"}}), "Deployment.apps default/gone"),
        (edit(name="named", object={}), "Deployment.apps default/named"),
        ({"object": {"kind": "Pod", "metadata": {"namespace": "n", "name": "p"}}}, "Pod n/p"),
        ({"kind": {"group": "", "kind": "Namespace"}, "name": "n"}, "Namespace n"),
        ({"object": {"metadata": {"ownerReferences": {"controller": True}}}}, ""),
        ([], ""),
    ],
)
def test_the_subject_of_a_request_of_any_shape(request_: Any, subject: str) -> None:
    change = make(request_)
    assert str(change.subject) == change.about == subject


def test_a_review_without_an_answer_of_a_call_is_only_undecidable() -> None:
    change = make(missing=[(CallName("webhook", "c", "w"), "no recorded answer")])
    assert change.kinds == (UNDECIDABLE,)
    assert change.differences == ()
    assert change.missing == (("webhook c/w", "no recorded answer"),)
    assert change.about == "webhook c/w"


def test_webhooks_that_are_not_asked_are_the_cause_and_the_first_three_are_named() -> None:
    names = [CallName("webhook", "c", name) for name in "abcde"]
    assert make(unasked=names[:3]).about == "webhook c/a, webhook c/b, webhook c/c"
    assert make(unasked=names).about == "webhook c/a, webhook c/b, webhook c/c and 2 more"


def test_messages_of_dispatched_reviews_name_the_webhooks() -> None:
    messages = (
        OutcomeDifference("message", ('admission webhook "b.example" denied it', "x"), ('webhook "a.example" failed',)),
        OutcomeDifference("warnings", ('webhook "b.example" again',), ()),
    )
    assert make(REQUEST, *messages, route=DISPATCH).about == "webhook b.example, webhook a.example"
    assert make(REQUEST, *messages).about == "YurtAppSet default/demo"
    assert make(REQUEST, OutcomeDifference("code", "403", "400"), route=DISPATCH).about == "Deployment.apps"


SUBJECT = ReviewedObject("Pod", "n", "p", "UPDATE", "")


def describe(*differences: OutcomeDifference, missing: tuple[tuple[str, str], ...] = ()) -> list[str]:
    change = ChangedDecision((), "/mutate", "", "", SUBJECT, "", "", "file", 1, False, differences, missing)
    return [f"{sign}{text}" for sign, text in describe_change(change)]


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
    assert describe(OutcomeDifference("verdict", before, after)) == lines


def test_only_texts_that_were_added_or_removed_are_shown() -> None:
    assert describe(OutcomeDifference("warnings", ("a", "b"), ("b", "c"))) == [" warnings", "-a", "+c"]


def test_each_operation_on_an_object_shows_its_path_and_values() -> None:
    before = {"spec": {"replicas": 1, "gone": "x", "same": "s" * 200}}
    after = {"spec": {"replicas": 2, "new": {"a": None}, "same": "s" * 200}}
    assert sorted(describe(OutcomeDifference("object", before, after))) == sorted(
        [
            " object /spec/replicas", "-1", "+2",
            " object /spec/gone", "-x",
            " object /spec/new", '+{"a": null}',
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("count", "is_cut"), [(MAX_LINES - 1, False), (MAX_LINES, True), (1000, True)])
def test_lines_beyond_the_limit_are_left_out(count: int, *, is_cut: bool) -> None:
    texts = tuple(f"warning {number}" for number in range(count))
    lines = describe(OutcomeDifference("warnings", (), texts))
    assert len(lines) == min(count + 1, MAX_LINES)
    assert ("left out" in lines[-1]) is is_cut
