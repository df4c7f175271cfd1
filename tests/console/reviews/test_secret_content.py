"""The content of Secrets in recordings that nobody has redacted."""

from typing import Any

import pytest

from fleethook.console.reviews.batch import describe_example
from fleethook.console.reviews.detail import describe_review
from fleethook.console.reviews.secret_content import SECRET, holds_secret
from fleethook.console.reviews.summary import summarize
from fleethook.model.gvk import GroupKind
from fleethook.recordings.replay.decision_changes import Place, make_change
from fleethook.recordings.replay.outcome import Difference
from tests.console.reviews.test_summary import ALLOWED, asked, entry_of

VALUE = "c3VwZXItc2VjcmV0LXZhbHVl"
HELD = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"password": VALUE}}
DEPLOYMENT = GroupKind("apps", "Deployment")

RECORDS: dict[str, Any] = {
    "kind of the request": asked(kind={"group": "", "kind": "Secret"}, object=HELD),
    "no kind": {"request": {"uid": "u", "object": HELD}},
    "kind as text": {"request": {"uid": "u", "kind": "Secret", "object": HELD}},
    "another kind": asked(object=HELD),
    "list of Secrets": asked(kind={"group": "", "kind": "SecretList"}, object={"kind": "SecretList", "items": [HELD]}),
    "list": asked(kind={"group": "", "kind": "List"}, object={"kind": "List", "items": [HELD]}),
    "old object": asked(operation="DELETE", oldObject=HELD),
    "in a Work": asked(object={"kind": "Work", "spec": {"workload": {"manifests": [HELD]}}}),
}


@pytest.mark.parametrize("review", RECORDS.values(), ids=RECORDS)
def test_no_page_shows_it(review: Any) -> None:
    refusal = {"kind": "AdmissionReview", "response": {"allowed": False, "status": {"message": f"bad {VALUE}"}}}
    for answer in (ALLOWED, refusal):
        entry = entry_of(review, answer)
        kind = summarize(entry, 0).group_kind
        assert holds_secret(entry, kind)
        assert VALUE not in repr(describe_review(entry, kind))
        difference = Difference("object", HELD, {**HELD, "data": {"password": VALUE * 2}})
        change = make_change(entry.record, Place("file", 2), b"{}", differences=[difference])
        assert describe_example(entry, change) == ((), True)


def test_the_answer_of_a_webhook_counts_too() -> None:
    assert holds_secret(entry_of(asked(), {"response": {"object": HELD}}), DEPLOYMENT)


def test_other_records_are_shown() -> None:
    entry = entry_of(asked(object={"kind": "Deployment", "spec": {"secretName": "a"}}), ALLOWED)
    assert not holds_secret(entry, DEPLOYMENT)
    assert holds_secret(entry, SECRET)


@pytest.mark.parametrize(("text", "hidden"), [("kind: Secret", True), ("hello", False)])
def test_text_that_names_a_secret_is_hidden(text: str, hidden: bool) -> None:
    assert holds_secret(entry_of({"text": text}, ALLOWED), DEPLOYMENT) is hidden
