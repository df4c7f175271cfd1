"""Decoding AdmissionReviews, and encoding their answers."""

import base64
import json
from typing import Any

import msgspec
import pytest

from fleethook.model.admission import Response
from fleethook.server.reviews.review_codec import (
    MAX_UID,
    BadReviewError,
    decode_review,
    encode_error,
    encode_response,
    salvage,
)


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


V1 = "admission.k8s.io/v1"
REQUEST = {
    "uid": "u-1",
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "operation": "CREATE",
    "object": {"metadata": {"name": "a"}},
}


def body(request: Any = REQUEST, **members: Any) -> bytes:
    return json.dumps({"apiVersion": V1, "kind": "AdmissionReview", "request": request, **members}).encode()


def answer(response: Response, *, api_version: str = V1) -> Any:
    document = json.loads(encode_response(response, uid="u-1", api_version=api_version))
    assert (document["apiVersion"], document["kind"]) == (api_version, "AdmissionReview")
    assert document["response"].pop("uid") == "u-1"
    return document["response"]


@pytest.mark.parametrize("version", [V1, "admission.k8s.io/v1beta1"])
def test_a_review_of_both_versions_is_decoded(version: str) -> None:
    found = decode_review(body(apiVersion=version))
    assert (found.api_version, found.uid, found.problem) == (version, "u-1", "")
    assert found.request is not None
    assert found.request.operation == "CREATE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (body(None), "the AdmissionReview has no request"),
        (body({**REQUEST, "uid": ""}), "request.uid is empty"),
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body is not an AdmissionReview"),
        (b"\xff", "the body is not JSON"),
        (b'{"apiVersion": "\xff"}', "the body is not JSON"),
        (b'{"request":' + b"[" * 100_000, "nested too deep"),
        (body(kind="Pod"), "AdmissionReview of admission.k8s.io/v1"),
        (body(apiVersion="admission.k8s.io/v2"), "AdmissionReview of admission.k8s.io/v1"),
    ],
)
def test_a_body_without_a_uid_to_answer_to_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(BadReviewError, match=message):
        decode_review(text)


@pytest.mark.parametrize(
    "request_", [{"uid": "u-2"}, {**REQUEST, "uid": "u-2", "kind": 7}, {**REQUEST, "uid": "u-2", "operation": []}]
)
def test_a_malformed_review_with_a_uid_can_be_answered(request_: Any) -> None:
    found = decode_review(body(request_))
    assert (found.uid, found.api_version, found.request) == ("u-2", V1, None)
    assert found.problem


def test_a_bare_answer_has_only_the_verdict() -> None:
    assert answer(Response(allowed=True)) == {"allowed": True}
    assert answer(Response(allowed=True), api_version="admission.k8s.io/v1beta1") == {"allowed": True}


def test_a_patch_is_base64_with_its_type() -> None:
    operations = [{"op": "remove", "path": "/a"}]
    found = answer(Response(allowed=True, patch=operations, warnings=("w",), audit_annotations={"a": "b"}))
    assert json.loads(base64.b64decode(found.pop("patch"))) == operations
    assert found == {"allowed": True, "patchType": "JSONPatch", "warnings": ["w"], "auditAnnotations": {"a": "b"}}


def test_a_denial_has_a_status_and_an_admission_has_none() -> None:
    denial = Response(allowed=False, message="no", reason="Forbidden", code=403)
    assert answer(denial)["status"] == {"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}
    assert "status" not in answer(Response(allowed=True, message="no", reason="Forbidden", code=403))


def test_an_error_is_a_status_of_the_core_group() -> None:
    assert json.loads(encode_error(413, "RequestEntityTooLarge", "too large")) == {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "too large",
        "reason": "RequestEntityTooLarge", "code": 413,
    }  # fmt: skip
