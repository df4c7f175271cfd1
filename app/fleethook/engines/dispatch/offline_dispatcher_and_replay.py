"""The dispatchers that ask no server: those of commands and pages, and those that take answers from records.

For a replay, each answer is that of the record, with the same error if it failed. A call without a recorded answer
fails like a call of an unreachable webhook.
The review then counts as undecidable, and its answer is ignored.
"""

from typing import Final, NoReturn

from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.recorded_calls import decode_failure, decode_response, name_webhook
from fleethook.engines.dispatch.call.review_response_and_patch import WebhookResponse
from fleethook.engines.dispatch.call.webhook_call_and_audit import WebhookCaller
from fleethook.engines.dispatch.dispatcher import Dependencies, Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import CallingError, StatusError, internal
from fleethook.engines.dispatch.match.selectors_and_decision import NAMESPACE
from fleethook.engines.dispatch.version_conversion import ConversionError, NeedsWebhook, ObjectConverter
from fleethook.engines.dispatch.webhooks.cluster_webhooks import Configurations, RelevantWebhook
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import CLUSTER_ANNOTATION
from fleethook.outbound.calls_and_retries import HookClient, Parties
from fleethook.recordings.recording_format import CallName, RecordedCall
from fleethook.recordings.replay.review_replay import UNRECORDED, find_current, read_answer


def build_offline_dispatcher(store: Store, *, as_kcp: bool = False, client: HookClient | None = None) -> Dispatcher:
    """Build a dispatcher for commands that predict requests. It shows objects as kcp does.

    Without a client, it cannot call webhooks, and conversions by webhook are errors.
    """
    call = _refuse_call if client is None else WebhookCaller(client, observe=lambda *_, **__: None).call
    dependencies = Dependencies(call_webhook=call, convert=ObjectConverter(store, client))
    return Dispatcher(store, Configurations(store), dependencies, as_kcp=as_kcp, sends_as_kcp=True)


async def _refuse_call(*_args: object, **_rest: object) -> NoReturn:
    raise internal("webhooks are not called offline")


def answer_from_records(store: Store, dependencies: Dependencies) -> Dependencies:
    """Return the dependencies of a dispatcher that calls nothing.

    Args:
        store: The objects. While a review is replayed, they include the namespace of its record.
        dependencies: Those of a server.
    """
    return dependencies._replace(
        call_webhook=_call_webhook, convert=_RecordedConverter(store), read_namespace=_NamespaceReader(store)
    )


async def _call_webhook(
    relevant: RelevantWebhook,
    attributes: Attributes,  # noqa: ARG001 - the answer is the recorded one for any object
    *,
    kind: GroupVersionKind,  # noqa: ARG001 - as above
    seconds: float,  # noqa: ARG001 - nothing waits
) -> WebhookResponse:
    webhook, calls = relevant.webhook, find_current()
    key = name_webhook(webhook)
    call = calls.take("webhook", webhook.name, key, cluster=webhook.cluster, configuration=webhook.configuration)
    if call is None:
        raise CallingError(webhook.name, UNRECORDED)
    title = CallName("webhook", webhook.configuration, webhook.name)
    try:
        if call.error:
            raise decode_failure(webhook.name, call.failure or {})
        return decode_response(as_object(read_answer(call)))
    except ValueError as error:
        calls.note_missing(title, f"its recorded answer cannot be read: {error}")
        raise CallingError(webhook.name, UNRECORDED) from error


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


def _raise_refusal(call: RecordedCall) -> NoReturn:
    """Raise the StatusError of a failed call."""
    try:
        failed = decode_failure(call.name, call.failure or {})
    except ValueError:
        failed = internal(call.error)
    raise failed if isinstance(failed, StatusError) else internal(call.error)
