"""Changes: the object and the cause of a review that is decided differently, and its key."""

import json
from typing import Any

import msgspec
import pytest

from fleethook.recordings.format import Record
from fleethook.recordings.replay.decision_changes import UNDECIDABLE, Change, Place, Subject, describe_name, make_change
from fleethook.recordings.replay.outcome import Difference
from fleethook.recordings.replay.recorded_calls import CallName
from tests.recordings.recordings import MUTATE, TIME, line

PLACE = Place("reviews.jsonl.gz", 7)
DISPATCH = "/dispatch/mutate"
DIFFERENCE = Difference("object", {"a": 1, "b": 1}, {"a": 2, "b": 1})
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


def make(request: Any = REQUEST, *differences: Difference, route: str = MUTATE, **rest: Any) -> Change:
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
    assert change.subject == Subject("Deployment.apps", "default", "demo-x", "UPDATE", "YurtAppSet default/demo")
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


@pytest.mark.parametrize("review", [b"", b"{", b"\xff", b"[]", b"[" * 100_000, b'{"request": 7}'])
def test_a_review_that_cannot_be_read_has_no_subject(review: bytes) -> None:
    change = make(review)
    assert (change.uid, str(change.subject), change.about) == ("", "", "")


def test_a_review_without_an_answer_of_a_call_is_only_undecidable() -> None:
    change = make(missing=[(CallName("webhook", "c", "w"), "it has no recorded answer")])
    assert change.kinds == (UNDECIDABLE,)
    assert change.differences == ()
    assert change.missing == (("webhook c/w", "it has no recorded answer"),)
    assert change.about == "webhook c/w"


def test_webhooks_that_are_not_asked_are_the_cause_and_the_first_three_are_named() -> None:
    names = [CallName("webhook", "c", name) for name in "abcde"]
    assert make(unasked=names[:3]).about == "webhook c/a, webhook c/b, webhook c/c"
    assert make(unasked=names).about == "webhook c/a, webhook c/b, webhook c/c and 2 more"


def test_messages_of_dispatched_reviews_name_the_webhooks() -> None:
    messages = (
        Difference("message", ('admission webhook "b.example" denied it', "x"), ('webhook "a.example" failed',)),
        Difference("warnings", ('webhook "b.example" again',), ()),
    )
    assert make(REQUEST, *messages, route=DISPATCH).about == "webhook b.example, webhook a.example"
    assert make(REQUEST, *messages).about == "YurtAppSet default/demo"
    assert make(REQUEST, Difference("code", "403", "400"), route=DISPATCH).about == "Deployment.apps"


def test_the_key_stays_the_same_in_another_run_of_the_same_change() -> None:
    key = make().key
    unrelated = Difference("object", {"a": 1, "b": 5}, {"a": 2, "b": 5})
    assert len(key) == 16
    assert make(edit(uid="u-2", object={**REQUEST["object"], "spec": {"more": True}})).key == key
    assert make(REQUEST, unrelated).key == key
    assert make(unasked=[CallName("webhook", "c", "w")]).key == key


@pytest.mark.parametrize(
    "change",
    [
        make(edit(namespace="other")),
        make(edit(operation="CREATE")),
        make(route="/other"),
        make(REQUEST, Difference("object", {"a": 1}, {"a": 3})),
        make(REQUEST, Difference("result", *DIFFERENCE[1:])),
        make(missing=[(CallName("webhook", "c", "w"), "reason")]),
    ],
)
def test_another_change_has_another_key(change: Change) -> None:
    assert change.key != make().key


@pytest.mark.parametrize(
    ("parts", "name"),
    [(("Pod", "n", "p"), "Pod n/p"), (("Pod", "", "p"), "Pod p"), (("Pod", "n", ""), "Pod n"), (("", "", ""), "")],
)
def test_names_leave_out_empty_parts(parts: tuple[str, str, str], name: str) -> None:
    assert describe_name(*parts) == name
