"""Find the uid of a review that cannot be decoded, so that a response can be sent."""

from collections.abc import Callable
from typing import Final

import msgspec

from fleethook.model.json import JSON, JSONObject

MAX_UID: Final = 1024
"""Maximum characters of the uid of a review; kube-apiserver uses 36."""


class BadReviewError(ValueError):
    """The body is no review that can be answered; the text describes the expected body."""


class _Outer(msgspec.Struct, rename="camel"):
    """The members of a review that must be decoded; it may be large, and was decoded once already."""

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
