"""Decodes AdmissionReviews, encodes the answers, and has the errors of reviews that cannot be answered.

A review that cannot be decoded is answered, too, if its uid can be found.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from fleethook.model.admission import (
    ALLOWED,
    API_VERSIONS,
    KIND,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    Response,
    Status,
    StatusDetails,
    errored,
)
from fleethook.model.json import JSON, JSONObject

_log: Final = logging.getLogger(__name__)

MAX_UID: Final = 1024
"""Maximum characters of the uid of a review; kube-apiserver uses 36."""


class BadReviewError(ValueError):
    """The body is no review that can be answered; the text describes the expected body."""


class ReviewProblem(NamedTuple):
    """The reason why a review cannot be answered.

    Attributes:
        message: The text for the caller.
        code: The HTTP status that the answer carries.
        reason: The reason of a ``metav1.Status``.
    """

    message: str
    code: int = 400
    reason: str = "BadRequest"


def explain_failure(error: Exception, *, route: str, uid: str) -> ReviewProblem:
    """Return the problem of a review on which its handler failed; a defect is logged.

    Every failure needs an answer with the uid: a dropped connection would leave the caller with a timeout and without
    a reason.
    """
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ReviewProblem(f"the object under review is not JSON: {error}")
    if isinstance(error, RecursionError):
        return ReviewProblem("the object under review is nested too deep")
    _log.error("review handler failed", exc_info=error, extra={"fields": {"route": route, "uid": uid}})
    return ReviewProblem(f"fleethook failed to answer; its log has the reason under uid {uid}", 500, "InternalError")


def to_response(problem: ReviewProblem) -> Response:
    """Return the response of a review that cannot be answered."""
    return errored(problem.message, code=problem.code, reason=problem.reason)


class _Outer(msgspec.Struct, rename="camel"):
    """The members of a review that the error needs. The rest stays undecoded: it may be large, and has failed once."""

    api_version: msgspec.Raw = msgspec.Raw(b"null")
    kind: msgspec.Raw = msgspec.Raw(b"null")
    request: msgspec.Raw = msgspec.Raw(b"null")


class _Request(msgspec.Struct):
    uid: msgspec.Raw = msgspec.Raw(b"null")


_decode_outer: Final = msgspec.json.Decoder(_Outer).decode
_decode_request: Final = msgspec.json.Decoder(_Request).decode
# Maximum bytes of a JSON string; one character takes up to six.
_MAX_TEXT: Final = 6 * MAX_UID + 2


def _decode_text(raw: msgspec.Raw) -> JSON:
    """Return a short text, None for anything else."""
    decoded: JSON = msgspec.json.decode(raw) if len(raw) <= _MAX_TEXT else None
    return decoded if isinstance(decoded, str) else None


def _decode_uid(request: msgspec.Raw) -> JSON:
    try:
        return _decode_text(_decode_request(request).uid)
    except msgspec.ValidationError:
        return None


def salvage(
    body: bytes, error: Exception, *, fits: Callable[[JSONObject], bool], expected: str
) -> tuple[str, JSONObject, str]:
    """Return the uid of a review that cannot be decoded, its apiVersion and kind, and the problem.

    Args:
        body: The review.
        error: The error of decoding.
        fits: Returns whether a document is a review of the expected kind.
        expected: A description of the expected body, for the error.

    Raises:
        BadReviewError: The body is not JSON, not a review, or has no uid.
    """
    problem = "the JSON is nested too deep" if isinstance(error, RecursionError) else str(error)
    try:
        outer = _decode_outer(body)
        document: JSONObject = {"apiVersion": _decode_text(outer.api_version), "kind": _decode_text(outer.kind)}
    except msgspec.ValidationError:
        raise BadReviewError(f"the body is not {expected}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as syntax_error:
        raise BadReviewError(f"the body is not JSON: {syntax_error}") from None
    except RecursionError:
        raise BadReviewError("the body is JSON nested too deep") from None
    if not fits(document):
        raise BadReviewError(f"the body is not {expected}") from None
    uid = _decode_uid(outer.request)
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
        raise BadReviewError(f"the {document['kind']} cannot be answered: {problem}") from None
    return uid, document, problem


_review_decoder: Final = msgspec.json.Decoder(AdmissionReview)
_encoder: Final = msgspec.json.Encoder()
_BEGINNINGS: Final = {
    version: b'{"apiVersion":"%b","kind":"AdmissionReview","response":{"uid":' % version.encode()
    for version in API_VERSIONS
}
"""The beginnings of answers by the version of the review."""


class Decoded(msgspec.Struct, frozen=True):
    """A review to answer; ``problem`` is set if only its uid and version could be read."""

    api_version: str
    uid: str
    request: AdmissionRequest | None
    problem: str

    def decode_objects(self) -> "Decoded":
        """Return this review after its objects were decoded. An object that is no JSON is an error where it is read."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if (request := self.request) is not None:
                _ = request.object, request.old_object, request.user, request.decoded_options
        return self


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
        raise BadReviewError("request.uid is empty, but the answer must repeat it: set request.uid")
    return Decoded(review.api_version, request.uid, request, "")


def _is_review(document: JSONObject) -> bool:
    return document.get("kind") == KIND and document.get("apiVersion") in API_VERSIONS


def encode_response(response: Response, *, uid: str, api_version: str) -> bytes:
    """Return the answer to a review with this uid, in the review's version."""
    if response is ALLOWED:
        return b"".join((_BEGINNINGS[api_version], _encoder.encode(uid), b',"allowed":true}}'))
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
