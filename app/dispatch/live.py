"""What is asked of the apiserver while a request waits: what somebody may do, a namespace that was made just now."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from app.dispatch.cel.access_check import AccessDecision, AccessQuestion
from app.dispatch.dispatcher import NAMESPACE
from app.dispatch.failures import StatusError, internal, too_many_requests
from app.kube.errors import APIError, UnreachableError
from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.outbound.slots import FullError, Slots

_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ACCESS_SECONDS: Final = 5.0

Post = Callable[..., Awaitable[JSON]]
"""Sends a request to the apiserver, as `app.kube.connection.Connection.json` does."""


class LiveSource(Protocol):
    """Where the store's objects come from."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Bring one object of the store up to what the server holds; raises APIError, UnreachableError."""

    def scope(self, cluster: str) -> str:
        """Return what is put before the path of an object in a cluster."""


def review_of_access(question: AccessQuestion) -> JSONObject:
    """Return the SubjectAccessReview that asks a question (authorization.k8s.io/v1)."""
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
    cluster: str, questions: frozenset[AccessQuestion], *, post: Post, live: LiveSource, slots: Slots
) -> Mapping[AccessQuestion, AccessDecision]:
    """Return what the authorizer of a logical cluster answers: SubjectAccessReviews, as many as there are questions.

    Args:
        cluster: The cluster of the request: who may do what is a matter of the consumer, not of the owner.
        questions: What conditions ask.
        post: Posts JSON to the apiserver and returns its answer.
        live: Knows the paths of clusters.
        slots: Shares what is under way fairly between the clusters.

    Raises:
        StatusError: This server has no room for more questions of the cluster.
    """

    async def ask(question: AccessQuestion) -> AccessDecision | StatusError:
        try:
            async with slots.hold(cluster, _ACCESS_REVIEWS, seconds=_ACCESS_SECONDS):
                path = live.scope(cluster) + _ACCESS_REVIEWS
                answer = await post("POST", path, body=review_of_access(question), timeout=_ACCESS_SECONDS)
        except FullError:
            return too_many_requests(
                f"this server asks the authorizer {slots.quotas.calls} questions at once for logical cluster "
                f"{cluster!r}, and {slots.quotas.total} for all, which is the limit; try again later"
            )
        except (APIError, UnreachableError) as error:
            # An authorizer that cannot be asked is an error of the condition, and so up to the failurePolicy.
            where = f"logical cluster {cluster}" if cluster else "the cluster"
            return AccessDecision(allowed=False, reason="", error=f"the authorizer of {where} cannot be asked: {error}")
        status = as_object(as_object(answer).get("status"))
        problem = status.get("evaluationError")
        return AccessDecision(
            allowed=status.get("allowed") is True,
            reason=str(status.get("reason") or ""),
            error=str(problem or ""),
        )

    ordered = list(questions)
    decisions = await asyncio.gather(*(ask(question) for question in ordered))
    made: dict[AccessQuestion, AccessDecision] = {}
    for question, decision in zip(ordered, decisions, strict=True):
        if isinstance(decision, StatusError):
            raise decision
        made[question] = decision
    return made


async def read_namespace(cluster: str, name: str, *, live: LiveSource) -> None:
    """Read a namespace that the store does not have: it may have been made just now; raises StatusError."""
    try:
        await live.read_one(NAMESPACE, cluster=cluster, namespace="", name=name)
    except (APIError, UnreachableError) as error:
        where = f" of logical cluster {cluster}" if cluster else ""
        raise internal(f"the namespace {name}{where} cannot be read: {error}") from error
