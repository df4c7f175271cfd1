"""What a review is wrapped in, whatever it asks: a uid to answer to, looked for even where nothing else fits."""

from collections.abc import Callable
from typing import Final

import msgspec

from app.model.json import JSON, JSONObject

MAX_UID: Final = 1024
"""Characters of the uid of a review; those of an apiserver have 36."""


class BadReviewError(ValueError):
    """A body that is no answerable review; the text says what it should have been."""


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
        document: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as syntax_error:
        raise BadReviewError(f"the body is not JSON: {syntax_error}") from None
    except RecursionError:
        raise BadReviewError("the body is JSON nested too deep") from None
    if not isinstance(document, dict) or not fits(document):
        raise BadReviewError(f"the body is not {expected}") from None
    request = document.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
        raise BadReviewError(f"the {document['kind']} cannot be answered: {problem}") from None
    return uid, document, problem
