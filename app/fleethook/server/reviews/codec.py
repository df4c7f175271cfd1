"""Decodes AdmissionReviews and the deadlines of their callers, and encodes the answers."""

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qs

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


# kube-apiserver's default budget for admission plus storage: the longest any caller waits
# (k8s.io/apiserver pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound).
MAX_SECONDS: Final = 34.0
# Time that is reserved for sending the answer, before the caller leaves.
_MARGIN_SECONDS: Final = 0.1
_MARGIN_SHARE: Final = 0.1

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
# Characters of a query whose seconds are cached.
_MAX_CACHED_QUERY: Final = 64


def parse_duration(duration: str) -> float | None:
    """Return a duration in Go's format (``1m30s``, ``500ms``) in seconds, None if the text has another format."""
    seconds, at = 0.0, 0
    while at < len(duration):
        part = _PART.match(duration, at)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if duration else None


def find_budget(query: bytes) -> float:
    """Return the seconds within which a request has to be answered."""
    # An apiserver always sends the same few queries. Long queries are not cached.
    return _cached_budget(query) if len(query) <= _MAX_CACHED_QUERY else _compute_budget(query)


def _compute_budget(query: bytes) -> float:
    asked = parse_duration(parse_qs(query.decode("latin-1")).get("timeout", [""])[-1]) if query else None
    seconds = min(asked or MAX_SECONDS, MAX_SECONDS)
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)


_cached_budget: Final = lru_cache(maxsize=256)(_compute_budget)
