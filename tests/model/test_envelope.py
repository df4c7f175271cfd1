import json
from typing import Any

import msgspec
import pytest

from fleethook.model.envelope import MAX_UID, BadReviewError, salvage


def fits(document: dict[str, Any]) -> bool:
    return document["kind"] == "AdmissionReview"


def call(body: bytes, error: Exception | None = None) -> tuple[str, dict[str, Any], str]:
    return salvage(body, error or msgspec.ValidationError("bad field"), fits=fits, expected="an AdmissionReview")


def review(**request: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "AdmissionReview", "request": request}).encode()


def test_the_uid_of_an_invalid_review_is_found() -> None:
    assert call(review(uid="u", operation=7)) == ("u", {"apiVersion": "v1", "kind": "AdmissionReview"}, "bad field")


def test_deep_nesting_has_its_own_problem() -> None:
    assert call(review(uid="u"), RecursionError())[2] == "the JSON is nested too deep"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "the body is not JSON: "),
        (b"\xff", "the body is not JSON: "),
        (b"[]", "the body is not an AdmissionReview"),
        (b'{"kind":"Pod"}', "the body is not an AdmissionReview"),
        (json.dumps({"kind": "A" * 10_000}).encode(), "the body is not an AdmissionReview"),
        (review(), "the AdmissionReview cannot be answered: bad field"),
        (review(uid=""), "the AdmissionReview cannot be answered: bad field"),
        (review(uid=7), "the AdmissionReview cannot be answered: bad field"),
        (review(uid="u" * (MAX_UID + 1)), "the AdmissionReview cannot be answered: bad field"),
        (b'{"kind":"AdmissionReview","request":[]}', "the AdmissionReview cannot be answered: bad field"),
    ],
)
def test_a_body_without_a_uid_cannot_be_answered(body: bytes, problem: str) -> None:
    with pytest.raises(BadReviewError) as raised:
        call(body)
    assert str(raised.value).startswith(problem)
