"""TokenReview (authentication.k8s.io/v1): the question about a bearer token, and the user in its answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fleethook.model.json import JSON, JSONObject, as_object

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_SECONDS: Final = 5.0
"""The longest wait for an apiserver's answer to one review."""


class ReviewedUser(NamedTuple):
    """The user of a token, as an apiserver describes it; ``extra`` is sorted by key."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: tuple[tuple[str, tuple[str, ...]], ...]


def build_token_review(token: str, audiences: Sequence[str]) -> JSONObject:
    """Build the TokenReview for a token.

    Args:
        token: The bearer token.
        audiences: The token must be for one of these; for the apiserver's own if there are none.
    """
    spec: JSONObject = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}


def read_reviewed_user(answer: JSON, audiences: Sequence[str]) -> ReviewedUser | None:
    """Return the user in an answered TokenReview, None if the token is not accepted; arguments as asked."""
    status: Mapping[str, Any] = as_object(as_object(answer).get("status"))
    user = as_object(status.get("user"))
    name = user.get("username")
    if status.get("authenticated") is not True or not isinstance(name, str) or not name:
        return None
    # An apiserver without support for audiences names none: the token is for the apiserver itself then.
    if audiences and not set(audiences) & set(_texts(status.get("audiences"))):
        return None
    extra = tuple(sorted((key, _texts(values)) for key, values in as_object(user.get("extra")).items()))
    return ReviewedUser(name, str(user.get("uid") or ""), _texts(user.get("groups")), extra)


def is_allowed(answer: JSON) -> bool:
    """Return whether an answered SubjectAccessReview gives the right."""
    status = as_object(as_object(answer).get("status"))
    return status.get("allowed") is True and status.get("denied") is not True


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
