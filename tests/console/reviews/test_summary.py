"""The facts about recorded reviews."""

import io
from typing import Any

import pytest

from fleethook.console.reviews.summary import ReviewSummary, classify, read_recorded_outcome, summarize
from fleethook.model.gvk import GroupKind
from fleethook.recordings.reader import Entry, read_entries
from tests.recordings.recordings import MUTATE, TIME, header, line

KIND = {"group": "apps", "version": "v1", "kind": "Deployment"}


def entry_of(review: Any, answer: Any = None, **members: Any) -> Entry:
    text = header() + b"\n" + line(review, answer, **members) + b"\n"
    (found,) = read_entries(io.BytesIO(text), "file")
    assert isinstance(found, Entry)
    return found


def asked(**request: Any) -> dict[str, Any]:
    return {"request": {"uid": "u-1", "operation": "CREATE", "kind": KIND, "namespace": "shop", **request}}


ALLOWED = {"kind": "AdmissionReview", "response": {"uid": "u-1", "allowed": True}}


def test_a_summary_names_the_object_and_the_place() -> None:
    found = summarize(entry_of(asked(name="web"), ALLOWED, cluster="root:a", seconds=0.25), 3)
    assert found == ReviewSummary(
        3, 2, TIME, MUTATE, "root:a", "apps", "Deployment", "shop", "web", "CREATE", "allowed", 0.25, "u-1"
    )
    assert found.group_kind == GroupKind("apps", "Deployment")


@pytest.mark.parametrize(
    ("request_", "name", "namespace"),
    [
        ({"object": {"metadata": {"name": "a"}}}, "a", "shop"),
        ({"object": {"metadata": {"generateName": "a-"}}}, "a-", "shop"),
        ({"namespace": "", "oldObject": {"metadata": {"name": "old", "namespace": "n"}}}, "old", "n"),
        ({"object": None, "oldObject": None}, "", "shop"),
    ],
)
def test_a_review_without_a_name_has_that_of_its_object(request_: dict[str, Any], name: str, namespace: str) -> None:
    found = summarize(entry_of(asked(**request_), ALLOWED), 0)
    assert (found.name, found.namespace) == (name, namespace)


@pytest.mark.parametrize(
    ("status", "answer", "verdict"),
    [
        (200, ALLOWED, "allowed"),
        (
            200,
            {
                "kind": "AdmissionReview",
                "response": {"allowed": True, "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="},
            },
            "patched",
        ),
        (200, {"kind": "AdmissionReview", "response": {"allowed": False}}, "denied"),
        (200, {"kind": "ResourceInterpreterContext", "response": {"successful": False}}, "failed"),
        (200, {"kind": "ResourceInterpreterContext", "response": {"successful": True, "healthy": True}}, "answered"),
        (200, {"hooks": []}, "answered"),
        (400, {"kind": "Status", "message": "no"}, "refused"),
    ],
)
def test_each_answer_has_a_verdict(status: int, answer: Any, verdict: str) -> None:
    assert classify(read_recorded_outcome(entry_of(asked(), answer, status=status))) == verdict
