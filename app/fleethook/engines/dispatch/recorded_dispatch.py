"""The parts of the dispatcher that leave the process, with answers from the record of the review that is replayed.

Each one answers as it did when the review was recorded, with the same error if it failed. A call without a recorded
answer fails like a call of an unreachable webhook. The review then counts as undecidable, and its answer is ignored.
"""

from typing import Any, Final, NoReturn

from fleethook.cel.evaluation import AccessDecision
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.dispatch.call.admission_review import WebhookResponse
from fleethook.engines.dispatch.call.call_trace import (
    ACCESS_REVIEW,
    decode_failure,
    decode_response,
    name_hook,
    name_question,
)
from fleethook.engines.dispatch.converter import ConversionError, NeedsWebhook, ObjectConverter
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, internal
from fleethook.engines.dispatch.dispatcher import NAMESPACE, Dependencies
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.match.attributes import Attributes
from fleethook.engines.dispatch.request_quotas import Decisions, Questions
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.outbound.client import Parties
from fleethook.recordings.format import Call
from fleethook.recordings.replay.recorded_calls import UNRECORDED, CallName, ReviewCalls, find_current, read_answer

_WITHOUT_EFFECTS: Final = ("None", "NoneOnDryRun")


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
        is_silent=lambda _hook, _consumer: False,
    )


def call_without_effects(store: Store, dependencies: Dependencies) -> Dependencies:
    """Return the dependencies of a dispatcher that calls webhooks which have no side effects on dry runs.

    Everything that an apiserver answered comes from the records. Arguments as of `answer_from_records`.
    """
    call = dependencies.call_webhook

    async def call_webhook(relevant: RelevantHook, *arguments: Any, **rest: Any) -> WebhookResponse:
        hook, calls = relevant.hook, find_current()
        calls.note_asked(title := CallName("webhook", hook.configuration, hook.name))
        if hook.side_effects not in _WITHOUT_EFFECTS:
            calls.note_missing(title, f"it has side effects (sideEffects: {hook.side_effects}), so it is not called")
            raise CallingError(hook.name, UNRECORDED)
        return await call(relevant, *arguments, **rest)

    return answer_from_records(store, dependencies)._replace(
        call_webhook=call_webhook, convert=dependencies.convert, is_silent=dependencies.is_silent
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
