"""What a review is wrapped in, whatever it asks: a uid to answer to, looked for even where nothing else fits."""

from collections.abc import Callable
from typing import Final

import msgspec

from app.model.json import JSON, JSONObject

MAX_UID: Final = 1024
"""Characters of the uid of a review; those of an apiserver have 36."""


class BadReviewError(ValueError):
    """A body that is no answerable review; the text says what it should have been."""


class _Outer(msgspec.Struct, rename="camel"):
    """A review of which as little is decoded as possible: it may be large, and was decoded once already."""

    api_version: msgspec.Raw = msgspec.Raw(b"null")
    kind: msgspec.Raw = msgspec.Raw(b"null")
    request: msgspec.Raw = msgspec.Raw(b"null")


class _Request(msgspec.Struct):
    uid: msgspec.Raw = msgspec.Raw(b"null")


_decode_outer: Final = msgspec.json.Decoder(_Outer).decode
_decode_request: Final = msgspec.json.Decoder(_Request).decode
# Bytes of a text in JSON, of which one character may take six.
_MAX_TEXT: Final = 6 * MAX_UID + 2


def _text(raw: msgspec.Raw) -> JSON:
    """Return a short text, None for anything else."""
    decoded: JSON = msgspec.json.decode(raw) if len(raw) <= _MAX_TEXT else None
    return decoded if isinstance(decoded, str) else None


def _uid_of(request: msgspec.Raw) -> JSON:
    try:
        return _text(_decode_request(request).uid)
    except msgspec.ValidationError:
        return None


def salvage(
    body: bytes, error: Exception, *, fits: Callable[[JSONObject], bool], expected: str
) -> tuple[str, JSONObject, str]:
    """Return the uid of a review that does not decode, the review as it is, and what is wrong with it.

    Args:
        body: The review.
        error: How decoding failed.
        fits: Whether a document is a review at all.
        expected: What it should be, for the error.

    Raises:
        BadReviewError: Not JSON, not a review, or without a uid to answer to.
    """
    problem = "the JSON is nested too deep" if isinstance(error, RecursionError) else str(error)
    try:
        outer = _decode_outer(body)
        document: JSONObject = {"apiVersion": _text(outer.api_version), "kind": _text(outer.kind)}
    except msgspec.ValidationError:
        raise BadReviewError(f"the body is not {expected}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as syntax_error:
        raise BadReviewError(f"the body is not JSON: {syntax_error}") from None
    except RecursionError:
        raise BadReviewError("the body is JSON nested too deep") from None
    if not fits(document):
        raise BadReviewError(f"the body is not {expected}") from None
    uid = _uid_of(outer.request)
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
        raise BadReviewError(f"the {document['kind']} cannot be answered: {problem}") from None
    return uid, document, problem
