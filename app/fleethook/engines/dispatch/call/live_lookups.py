"""Asks the apiserver while a request waits: SubjectAccessReviews, and namespaces that the store lacks."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.engines.dispatch.dispatch_errors import StatusError, internal, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE
from fleethook.model.gvk import GroupKind
from fleethook.model.json import as_object
from fleethook.outbound.call_limits import CallSlots, FullError
from fleethook.server.callers import ACCESS_REVIEWS, REVIEW_SECONDS, Post, build_access_review


class LiveSource(Protocol):
    """The source of the store's objects."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Read one object from the server into the store; raises APIError, UnreachableError."""

    def scope(self, cluster: str) -> str:
        """Return the path prefix of a cluster."""


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
            async with slots.hold(cluster, ACCESS_REVIEWS, seconds=REVIEW_SECONDS):
                path = live.scope(cluster) + ACCESS_REVIEWS
                answer = await post("POST", path, body=build_access_review(question), timeout=REVIEW_SECONDS)
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
