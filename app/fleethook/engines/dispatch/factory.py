"""Builds dispatchers: with questions to an apiserver while a request waits, or with answers from records.

The questions are SubjectAccessReviews, and namespaces that the store lacks. For a replay, each answer is that of the
record, with the same error if it failed. A call without a recorded answer fails like a call of an unreachable webhook.
The review then counts as undecidable, and its answer is ignored.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn, Protocol

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.dispatch.call.admission_review import WebhookResponse
from fleethook.engines.dispatch.call.call import Observe, WebhookCaller
from fleethook.engines.dispatch.call.call_trace import (
    ACCESS_REVIEW,
    decode_failure,
    decode_response,
    name_hook,
    name_question,
)
from fleethook.engines.dispatch.converter import ConversionError, NeedsWebhook, ObjectConverter
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, internal, too_many_requests
from fleethook.engines.dispatch.dispatcher import NAMESPACE, Dependencies, Dispatcher
from fleethook.engines.dispatch.hooks.hook_index import Configurations, RelevantHook
from fleethook.engines.dispatch.hooks.own_endpoints import OwnEndpoints
from fleethook.engines.dispatch.match.rules import Attributes
from fleethook.engines.dispatch.request_limits import Decisions, Questions, RequestLimits
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.outbound.call_limits import CallSlots, FullError, Quotas
from fleethook.outbound.client import HookClient, Parties
from fleethook.recordings.recording_format import Call
from fleethook.recordings.replay.recorded_calls import UNRECORDED, CallName, ReviewCalls, find_current, read_answer
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
    limits: RequestLimits | None = None,
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
        limits: As for `Dispatcher`.
        own: Recognizes this server among the webhooks.
        traces: As for `Dispatcher`.
        replace: Returns the dependencies to use in place of those that leave the process, for replays.
    """
    caller = WebhookCaller(client, observe=observe)
    access = CallSlots(_ACCESS_QUOTAS)
    dependencies = Dependencies(
        call_webhook=caller.call,
        convert=ObjectConverter(store, client),
        authorize=partial(authorize, post=post, live=live, slots=access)
        if post is not None and live is not None
        else None,
        read_namespace=partial(read_namespace, live=live) if live is not None else None,
        own=own or OwnEndpoints(),
    )
    if replace is not None:
        dependencies = replace(store, dependencies)
    limits = limits or RequestLimits()
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp, limits=limits, traces=traces)


def build_offline_dispatcher(store: Store, *, as_kcp: bool = False) -> Dispatcher:
    """Build a dispatcher for `explain` that only reads the store and cannot call webhooks.

    Conditions cannot ask the authorizer, and conversions by webhook are errors.
    """
    dependencies = Dependencies(call_webhook=_refuse_call, convert=ObjectConverter(store))
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp)


async def _refuse_call(*_args: object, **_rest: object) -> NoReturn:
    raise internal("webhooks are not called offline")


def answer_from_records(store: Store, dependencies: Dependencies) -> Dependencies:
    """Return the dependencies of a dispatcher that calls nothing.

    Args:
        store: The objects. While a review is replayed, they include the namespace of its record.
        dependencies: Those of a server.
    """
    return dependencies._replace(
        call_webhook=_call_webhook,
        convert=_RecordedConverter(store),
        authorize=_authorize,
        read_namespace=_NamespaceReader(store),
    )


async def _call_webhook(
    relevant: RelevantHook,
    attributes: Attributes,  # noqa: ARG001 - the answer is the recorded one for any object
    *,
    kind: GroupVersionKind,  # noqa: ARG001 - as above
    seconds: float,  # noqa: ARG001 - nothing waits
) -> WebhookResponse:
    hook, calls = relevant.hook, find_current()
    key = name_hook(hook)
    call = calls.take("webhook", hook.name, key, cluster=hook.cluster, configuration=hook.configuration)
    if call is None:
        raise CallingError(hook.name, UNRECORDED)
    title = CallName("webhook", hook.configuration, hook.name)
    try:
        if call.error:
            raise decode_failure(hook.name, call.failure or {})
        return decode_response(as_object(read_answer(call)))
    except ValueError as error:
        calls.note_missing(title, f"its recorded answer cannot be read: {error}")
        raise CallingError(hook.name, UNRECORDED) from error


async def _authorize(cluster: str, questions: Questions) -> Decisions:
    calls = find_current()
    return {question: _decide(calls, cluster, name_question(question)) for question in questions}


def _decide(calls: ReviewCalls, cluster: str, key: str) -> AccessDecision:
    call = calls.take("read", ACCESS_REVIEW, key, cluster=cluster)
    if call is None:
        return AccessDecision(allowed=False, error=UNRECORDED)
    if call.error:
        _raise_refusal(call)
    try:
        answer = as_object(read_answer(call))
    except ValueError as error:
        calls.note_missing(CallName("read", "", ACCESS_REVIEW), f"its recorded answer cannot be read: {error}")
        return AccessDecision(allowed=False, error=UNRECORDED)
    reason, problem = (str(answer.get(member) or "") for member in ("reason", "error"))
    return AccessDecision(allowed=answer.get("allowed") is True, reason=reason, error=problem)


class _NamespaceReader:
    """Reads a namespace that the source of objects lacks from the record of the review."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    async def __call__(self, cluster: str, name: str) -> None:
        calls = find_current()
        call = calls.take("read", NAMESPACE.kind, name, cluster=cluster)
        if call is None:
            raise internal(UNRECORDED)
        if call.error:
            _raise_refusal(call)
        metadata: JSONObject = {"name": name, "labels": as_object(read_answer(call)).get("labels")}
        if cluster:
            metadata["annotations"] = {CLUSTER_ANNOTATION: cluster}
        self._store.put({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata})
        # The labels are those of this review: the next one may have others.
        calls.after.append(lambda: self._store.remove(ObjectKey(cluster, NAMESPACE, "", name)))


class _RecordedConverter(ObjectConverter):
    """Converts objects as a server does, with recorded answers of conversion webhooks."""

    async def _call_webhook(
        self, planned: NeedsWebhook, document: JSONObject, kind: GroupVersionKind, *, parties: Parties, seconds: float
    ) -> JSON:
        del planned, seconds
        source = f"{document.get('apiVersion')}/{document.get('kind')}"
        key = f"convert/{source}/{kind.api_version}"
        call = find_current().take("webhook", source, key, cluster=parties.owner, configuration="conversion")
        if call is None:
            raise ConversionError(UNRECORDED)
        if call.error:
            if call.failure:
                _raise_refusal(call)
            raise ConversionError(call.error)
        return read_answer(call)


def _raise_refusal(call: Call) -> NoReturn:
    """Raise the StatusError of a failed call."""
    try:
        failed = decode_failure(call.name, call.failure or {})
    except ValueError:
        failed = internal(call.error)
    raise failed if isinstance(failed, StatusError) else internal(call.error)
