"""Asks the apiserver while a request waits: TokenReviews, SubjectAccessReviews, namespaces that the store lacks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.dispatch_errors import StatusError, internal, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.outbound.call_limits import CallSlots, FullError

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


_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ACCESS_SECONDS: Final = 5.0

Post = Callable[..., Awaitable[JSON]]
"""Sends a request to the apiserver, as `fleethook.cluster.connection.Connection.json` does."""


class LiveSource(Protocol):
    """The source of the store's objects."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Read one object from the server into the store; raises APIError, UnreachableError."""

    def scope(self, cluster: str) -> str:
        """Return the path prefix of a cluster."""


def build_access_review(question: AccessQuestion) -> JSONObject:
    """Build the SubjectAccessReview for a question (authorization.k8s.io/v1)."""
    spec: JSONObject = {
        "user": question.user,
        "uid": question.uid,
        "groups": list(question.groups),
        "extra": {name: list(values) for name, values in question.extra},
    }
    if question.path:
        spec["nonResourceAttributes"] = {"path": question.path, "verb": question.verb}
    else:
        attributes: JSONObject = {
            "verb": question.verb,
            "group": question.group,
            "version": question.version or "*",
            "resource": question.resource,
            "subresource": question.subresource,
            "namespace": question.namespace,
            "name": question.name,
        }
        for member, selector in (
            ("fieldSelector", question.field_selector),
            ("labelSelector", question.label_selector),
        ):
            if selector:
                attributes[member] = {"rawSelector": selector}
        spec["resourceAttributes"] = attributes
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


async def authorize(
    cluster: str, questions: frozenset[AccessQuestion], *, post: Post, live: LiveSource, slots: CallSlots
) -> Mapping[AccessQuestion, AccessDecision]:
    """Ask the authorizer of a logical cluster, with one SubjectAccessReview for each question.

    Args:
        cluster: The consumer's cluster; the owner's cluster does not decide about the consumer's users.
        questions: The questions of matchConditions.
        post: Posts JSON to the apiserver and returns its answer.
        live: Returns the paths of clusters.
        slots: Limits concurrent questions, fairly between clusters.

    Raises:
        StatusError: This server has no capacity for more questions of the cluster.
    """

    async def ask(question: AccessQuestion) -> AccessDecision | StatusError:
        try:
            async with slots.hold(cluster, _ACCESS_REVIEWS, seconds=_ACCESS_SECONDS):
                path = live.scope(cluster) + _ACCESS_REVIEWS
                answer = await post("POST", path, body=build_access_review(question), timeout=_ACCESS_SECONDS)
        except FullError:
            return too_many_requests(
                f"too many concurrent questions to the authorizer for logical cluster {cluster!r} (limits: "
                f"{slots.quotas.calls} for one cluster, {slots.quotas.total} for all); try again later"
            )
        except (APIError, UnreachableError) as error:
            # A failed question is an error of the condition, so the failurePolicy applies.
            where = f"logical cluster {cluster}" if cluster else "the cluster"
            problem = f"failed to ask the authorizer of {where}: {error}"
            return AccessDecision(allowed=False, reason="", error=problem)
        status = as_object(as_object(answer).get("status"))
        return AccessDecision(
            allowed=status.get("allowed") is True,
            reason=str(status.get("reason") or ""),
            error=str(status.get("evaluationError") or ""),
        )

    ordered = list(questions)
    decisions = await asyncio.gather(*(ask(question) for question in ordered))
    answered: dict[AccessQuestion, AccessDecision] = {}
    for question, decision in zip(ordered, decisions, strict=True):
        if isinstance(decision, StatusError):
            raise decision
        answered[question] = decision
    return answered


async def read_namespace(cluster: str, name: str, *, live: LiveSource) -> None:
    """Read a namespace into the store: it may be new. Raises StatusError."""
    try:
        await live.read_one(NAMESPACE, cluster=cluster, namespace="", name=name)
    except (APIError, UnreachableError) as error:
        where = f" of logical cluster {cluster}" if cluster else ""
        raise internal(f"failed to read namespace {name}{where}: {error}") from error
