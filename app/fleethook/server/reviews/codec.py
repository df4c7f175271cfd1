"""Decodes and encodes AdmissionReviews."""

from typing import Final, NamedTuple

import msgspec

from fleethook.model.admission import (
    API_VERSIONS,
    KIND,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    Response,
    Status,
    StatusDetails,
)
from fleethook.model.envelope import BadReviewError, salvage
from fleethook.model.json import JSONObject

_review_decoder: Final = msgspec.json.Decoder(AdmissionReview)
_encoder: Final = msgspec.json.Encoder()


class Decoded(NamedTuple):
    """A review to answer; ``problem`` is set if only its uid and version could be read."""

    api_version: str
    uid: str
    request: AdmissionRequest | None
    problem: str


def decode_review(body: bytes) -> Decoded:
    """Return the request in ``body``.

    Raises:
        BadReviewError: The body is not JSON, not an AdmissionReview, or has no uid to answer to.
    """
    try:
        review = _review_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        expected = f"an {KIND} of {' or '.join(API_VERSIONS)}"
        uid, document, problem = salvage(body, error, fits=_is_review, expected=expected)
        return Decoded(document["apiVersion"], uid, None, problem)
    request = review.request
    if request is None:
        raise BadReviewError("the AdmissionReview has no request")
    if not request.uid:
        raise BadReviewError("request.uid is empty, so there is nothing to answer to")
    return Decoded(review.api_version, request.uid, request, "")


def _is_review(document: JSONObject) -> bool:
    return document.get("kind") == KIND and document.get("apiVersion") in API_VERSIONS


def encode_response(response: Response, *, uid: str, api_version: str) -> bytes:
    """Return the answer to a review with this uid, in the review's version."""
    patch = _encoder.encode(response.patch) if response.patch else None
    answer = AdmissionResponse(
        uid=uid,
        allowed=response.allowed,
        status=None if response.allowed else response.status or _status(response),
        patch=patch,
        patch_type=None if patch is None else "JSONPatch",
        audit_annotations=response.audit_annotations or None,
        warnings=list(response.warnings) or None,
    )
    return _encoder.encode({"apiVersion": api_version, "kind": KIND, "response": answer})


def _status(response: Response) -> Status:
    details = StatusDetails(causes=response.causes) if response.causes else None
    return Status(
        status="Failure", message=response.message, reason=response.reason, code=response.code, details=details
    )


def encode_error(code: int, reason: str, message: str) -> bytes:
    """Return a ``Status`` as the body of an HTTP error."""
    return _encoder.encode(
        Status(api_version="v1", kind="Status", status="Failure", message=message, reason=reason, code=code)
    )
