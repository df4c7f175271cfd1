"""Collects the answers from outside the process on which the decision about one review depends.

A recording keeps them, so that a replay decides again without webhooks and without an apiserver.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import WebhookResponse
from fleethook.engines.dispatch.errors_and_deadline import CallingError, StatusError
from fleethook.engines.dispatch.match.selectors_and_decision import CallWebhook, NamespaceLabels
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.admission import Status
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject
from fleethook.server.reviews.records_and_traces import AskedCall

# msgspec describes a type at its first use. In two threads at once, this crashes the process.
msgspec.json.Decoder(WebhookResponse)
msgspec.json.Decoder(Status)


class CallTrace:
    """The calls of one review, in the order of their ends.

    Attributes:
        calls: The calls.
    """

    def __init__(self) -> None:
        self.calls: Final[list[AskedCall]] = []

    def watch_webhooks(self, call: CallWebhook) -> CallWebhook:
        """Return a function that calls webhooks as ``call`` does, and notes their answers."""

        async def call_and_note(
            relevant: RelevantWebhook, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
        ) -> WebhookResponse:
            webhook = relevant.webhook
            noted = AskedCall("webhook", webhook.name, name_webhook(webhook), webhook.configuration, webhook.cluster)
            try:
                response = await call(relevant, attributes, kind=kind, seconds=seconds)
            except (CallingError, StatusError) as error:
                self.calls.append(noted._replace(error=str(error), failure=encode_failure(error)))
                raise
            self.calls.append(noted._replace(answer=msgspec.to_builtins(response)))
            return response

        return call_and_note

    def note_namespace(self, attributes: Attributes, namespace: NamespaceLabels) -> None:
        """Note the labels of a request's namespace, or the error of reading them."""
        noted = AskedCall("read", "Namespace", attributes.namespace, cluster=attributes.cluster)
        error = namespace.error
        if error is None:
            self.calls.append(noted._replace(answer={"labels": namespace.labels}))
        else:
            self.calls.append(noted._replace(error=str(error), failure=encode_failure(error)))

    def note_conversion(
        self, source: str, target: str, *, cluster: str, converted: JSON = None, error: Exception | None = None
    ) -> None:
        """Note the answer of a conversion webhook.

        Args:
            source: The apiVersion and kind of the object.
            target: The apiVersion of the answer.
            cluster: The logical cluster of the definition.
            converted: The answer.
            error: The reason why there is none.
        """
        noted = AskedCall("webhook", source, f"convert/{source}/{target}", cluster=cluster, answer=converted)
        if error is not None:
            failure = encode_failure(error) if isinstance(error, StatusError) else {}
            noted = noted._replace(error=str(error), failure=failure)
        self.calls.append(noted)


def note_refusal(name: str, problem: str) -> AskedCall:
    """Return the note that the server refused a review without deciding it, and the reason."""
    return AskedCall("read", name, "", error=problem)


def name_webhook(webhook: Webhook) -> str:
    """Return the key under which the answers of a webhook are noted."""
    return f"{webhook.phase}/{webhook.uid}"


def decode_response(members: Mapping[str, JSON]) -> WebhookResponse:
    """Return the response of a webhook from its members as JSON; raises ValueError."""
    try:
        return msgspec.convert(members, WebhookResponse)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the answer of a webhook: {error}") from error


def encode_failure(error: CallingError | StatusError) -> JSONObject:
    """Return the facts about an error that decide how it is handled."""
    if isinstance(error, CallingError):
        return {"cutShort": error.cut_short, "reason": error.reason}
    return {"status": msgspec.to_builtins(error.status)}


def decode_failure(name: str, failure: Mapping[str, JSON]) -> CallingError | StatusError:
    """Return the error of a call that `encode_failure` encoded.

    Args:
        name: The name of the webhook.
        failure: The facts.

    Raises:
        ValueError: The facts are not those of an error.
    """
    if "status" not in failure:
        return CallingError(name, str(failure.get("reason", "")), cut_short=failure.get("cutShort") is True)
    try:
        status = msgspec.convert(failure["status"], Status)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the status of a refusal: {error}") from error
    refusal = StatusError(status.code, status.reason, status.message, status.details)
    refusal.status = status
    return refusal
