"""Builds dispatchers, with the questions that they ask an apiserver while a request waits.

The questions are SubjectAccessReviews, and namespaces that the store lacks.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn, Protocol

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.call.call import FindCredential, Observe, WebhookCaller
from fleethook.engines.dispatch.converter import ObjectConverter
from fleethook.engines.dispatch.dispatch_errors import StatusError, internal, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE, Dependencies, Dispatcher
from fleethook.engines.dispatch.hooks.hook_index import Configurations
from fleethook.engines.dispatch.hooks.own_endpoints import OwnEndpoints
from fleethook.engines.dispatch.request_quotas import RequestLimits
from fleethook.model.gvk import GroupKind
from fleethook.model.json import as_object
from fleethook.outbound.call_limits import CallSlots, FullError, Quotas
from fleethook.outbound.client import HookClient
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


# Concurrent SubjectAccessReviews, for one logical cluster and for all. An apiserver answers one in 1 to 2 ms.
_ACCESS_QUOTAS: Final = Quotas(connections=8, calls=8, total=64)


def build_dispatcher(  # noqa: PLR0913 - each argument is a part that another module builds
    store: Store,
    client: HookClient,
    *,
    observe: Observe,
    post: Post | None = None,
    live: LiveSource | None = None,
    as_kcp: bool = False,
    share: bool = False,
    limits: RequestLimits | None = None,
    find_credential: FindCredential | None = None,
    own: OwnEndpoints | None = None,
    traces: bool = False,
    replace: Callable[[Store, Dependencies], Dependencies] | None = None,
) -> Dispatcher:
    """Build a dispatcher.

    Args:
        store: The objects, indexed by `fleethook.engines.dispatch.schema_owner.INDEXES`.
        client: Calls webhooks.
        observe: Observes each call.
        post: Posts to the apiserver. Without it, conditions cannot ask the authorizer.
        live: Reads objects from the apiserver into the store.
        as_kcp: As for `Dispatcher`.
        share: As for `Dispatcher`.
        limits: As for `Dispatcher`.
        find_credential: As for `fleethook.engines.dispatch.call.call.WebhookCaller`. Conversion webhooks are called
            without credentials.
        own: Recognizes this server among the webhooks.
        traces: As for `Dispatcher`.
        replace: Returns the dependencies to use in place of those that leave the process, for replays.
    """
    caller = WebhookCaller(client, observe=observe, find_credential=find_credential)
    access = CallSlots(_ACCESS_QUOTAS)
    dependencies = Dependencies(
        call_webhook=caller.call,
        convert=ObjectConverter(store, client),
        authorize=partial(authorize, post=post, live=live, slots=access)
        if post is not None and live is not None
        else None,
        read_namespace=partial(read_namespace, live=live) if live is not None else None,
        is_silent=caller.is_silent,
        own=own or OwnEndpoints(),
    )
    if replace is not None:
        dependencies = replace(store, dependencies)
    limits = limits or RequestLimits()
    return Dispatcher(
        store, Configurations(store), dependencies, as_kcp=as_kcp, share=share, limits=limits, traces=traces
    )


def build_offline_dispatcher(store: Store, *, as_kcp: bool = False) -> Dispatcher:
    """Build a dispatcher for `explain` that only reads the store and cannot call webhooks.

    Conditions cannot ask the authorizer, and conversions by webhook are errors.
    """
    dependencies = Dependencies(call_webhook=_refuse_call, convert=ObjectConverter(store))
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp)


async def _refuse_call(*_args: object, **_rest: object) -> NoReturn:
    raise internal("webhooks are not called offline")
