"""Calls one webhook before the deadline of the request, and records its audit annotations.

Upstream: k8s.io/apiserver pkg/admission/plugin/webhook.
"""

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import (
    ReviewError,
    WebhookResponse,
    build_review,
    parse_response,
)
from fleethook.engines.dispatch.errors_and_deadline import CallingError, StatusError, internal, too_many_requests
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.admission import API_VERSIONS
from fleethook.model.formats.names_and_labels import is_dns1123_subdomain, label_key_problem
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON
from fleethook.outbound.call_errors_and_failure_log import CallError, NotCalledError, OverloadedError
from fleethook.outbound.calls_and_retries import Encode, HookClient, Parties
from fleethook.patch import PatchError
from fleethook.tracing.spans_and_otel_variables import child_span
from fleethook.work.threads_and_gc import Worker

# The largest response, in bytes, that is decoded on the event loop: 0.5 ms.
_SHORT_ANSWER: Final = 64 * 1024
# The largest review, in bytes, that is encoded on the event loop: 5 ms if it consists of nested lists.
_SMALL_REVIEW: Final = 256 * 1024
_KNOWN: Final = tuple(version.partition("/")[2] for version in API_VERSIONS)

WITHOUT_EFFECTS: Final = ("None", "NoneOnDryRun")
"""The sideEffects that support dry runs."""


def check_dry_run(name: str, side_effects: str | None) -> None:
    """Raise CallingError or StatusError if a webhook with such sideEffects does not support dry runs."""
    if side_effects is None:
        raise CallingError(name, "Webhook SideEffects is nil")
    if side_effects not in WITHOUT_EFFECTS:
        raise StatusError(400, "BadRequest", f'admission webhook "{name}" does not support dry run')


def choose_review_version(accepted: tuple[str, ...]) -> str:
    """Return the AdmissionReview version for a webhook: the first accepted version that is known.

    Raises:
        ReviewError: No accepted version is known.
    """
    for version in accepted:
        if version in _KNOWN:
            return version
    raise ReviewError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


Observe = Callable[..., None]
"""Observes each call: the webhook, and by name the outcome, the HTTP status (0 without) and the seconds."""


class WebhookCaller:
    """Calls webhooks; logical clusters do not share connections."""

    def __init__(self, client: HookClient, *, observe: Observe) -> None:
        """Initialize the caller.

        Args:
            client: Sends the requests.
            observe: Observes each call.
        """
        self._client: Final = client
        self._observe: Final = observe
        self._worker: Final = Worker()

    async def call(
        self, relevant: RelevantWebhook, attributes: Attributes, *, kind: GroupVersionKind, seconds: float
    ) -> WebhookResponse:
        """Send a request to a webhook and return its response.

        Args:
            relevant: The webhook and its invocation.
            attributes: The request, with objects of ``kind``.
            kind: The kind that the webhook gets.
            seconds: The time that the request can wait; the webhook's timeoutSeconds also limits the call.

        Raises:
            CallingError: The call failed, or the response is invalid.
            StatusError: The webhook does not support the request, or this server has no capacity for the call.
        """
        webhook = relevant.webhook
        if attributes.dry_run:
            check_dry_run(webhook.name, webhook.side_effects)
        uid = str(uuid.uuid4())
        try:
            version = choose_review_version(webhook.review_versions)
        except ReviewError as error:
            raise CallingError(webhook.name, f"could not create admission objects: {error}") from None
        if webhook.endpoint is None:
            raise CallingError(webhook.name, f"could not get REST client: {webhook.problem}")
        review = build_review(attributes, relevant.invocation, kind=kind, version=version, uid=uid)
        # Encoded when the call starts, so that waiting requests hold no second copy.
        encode: Encode = partial(msgspec.json.encode, review)
        if attributes.size > _SMALL_REVIEW:
            encode = partial(self._worker.run, attributes.cluster, msgspec.json.encode, review)
        facts = {
            "fleethook.webhook": webhook.uid,
            "fleethook.phase": webhook.phase,
            "fleethook.cluster": webhook.cluster,
        }
        with child_span("call webhook", "client", facts):
            text = await self._post(webhook, encode, consumer=attributes.cluster, seconds=seconds)
        parse = partial(parse_response, text, uid=uid, version=version, mutating=webhook.phase == "mutating")
        try:
            if len(text) <= _SHORT_ANSWER:
                return parse()
            return await self._worker.run(attributes.cluster, parse)
        except ReviewError as error:
            raise CallingError(webhook.name, f"received invalid webhook response: {error}") from None
        except PatchError as error:
            raise internal(f'the patch of admission webhook "{webhook.name}" does not apply: {error}') from None

    async def _post(self, webhook: Webhook, encode: Encode, *, consumer: str, seconds: float) -> bytes:
        assert webhook.endpoint is not None
        if seconds <= 0:
            reason = f'failed to call webhook: Post "{webhook.endpoint.url}": context deadline exceeded'
            raise CallingError(webhook.name, reason, cut_short=True)
        started = time.perf_counter()
        outcome, code = "failed", 0
        try:
            text = await self._client.post(
                webhook.endpoint,
                encode,
                seconds=webhook.seconds,
                within=seconds,
                parties=Parties(webhook.cluster, consumer),
            )
            outcome, code = "answered", 200
        except OverloadedError as error:
            outcome = "refused"
            refused = f'admission webhook "{webhook.name}" was not called: {error}; try again later'
            raise too_many_requests(refused) from error
        except CallError as error:
            outcome, code = "timed out" if error.timed_out else "failed", error.code
            if not (code or error.timed_out or isinstance(error, NotCalledError)):
                where = f" of logical cluster {webhook.cluster}" if webhook.cluster else ""
                line = f'webhook "{webhook.name}"{where} breaks its connections: {error.reason}'
                self._client.failures.note(webhook.cluster, f"{webhook.phase} {webhook.uid}", line)
            raise CallingError(webhook.name, str(error), cut_short=error.cut_short) from error
        finally:
            self._observe(webhook, outcome=outcome, code=code, seconds=time.perf_counter() - started)
        return text


_MUTATION: Final = "mutation.webhook.admission.k8s.io"
_PATCH: Final = "patch.webhook.admission.k8s.io"
_VALIDATING: Final = "validating.webhook.admission.k8s.io"
_FAILED_OPEN: Final = "failed-open"

# The total size of recorded patches, in bytes. A request may have 256 patches of 2 MiB each.
_MAX_PATCHES: Final = 1024 * 1024


class Audit:
    """The audit annotations of one request; the first value of a key is kept.

    Attributes:
        annotations: The recorded annotations.
    """

    def __init__(self) -> None:
        self.annotations: Final[dict[str, str]] = {}
        self._patches = 0

    def record_call(self, webhook: Webhook, *, round_number: int, mutated: bool) -> None:
        """Record the call of a mutating webhook."""
        value = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": mutated}
        self._add(f"{_MUTATION}/round_{round_number}_index_{webhook.position}", _encode(value))

    def record_patch(self, webhook: Webhook, operations: list[JSON], *, size: int, round_number: int) -> None:
        """Record the patch of a mutating webhook, up to a total size.

        Args:
            webhook: The webhook.
            operations: The operations of the patch.
            size: The size of the patch in bytes.
            round_number: The round of the call.
        """
        self._patches += size
        if self._patches > _MAX_PATCHES:
            return
        value = {
            "configuration": webhook.configuration,
            "webhook": webhook.name,
            "patch": operations,
            "patchType": "JSONPatch",
        }
        self._add(f"{_PATCH}/round_{round_number}_index_{webhook.position}", _encode(value))

    def record_fail_open(self, webhook: Webhook, *, round_number: int = 0, index: int) -> None:
        """Record an ignored failure; ``index`` counts all webhooks, but only called ones in the validating phase."""
        prefix = _MUTATION if webhook.phase == "mutating" else _VALIDATING
        self._add(f"{_FAILED_OPEN}.{prefix}/round_{round_number}_index_{index}", webhook.name)

    def record_annotations(self, webhook: Webhook, annotations: dict[str, str]) -> None:
        """Record the audit annotations of a webhook's response, prefixed by its name. Invalid keys are left out."""
        for name, value in annotations.items():
            key = f"{webhook.name}/{name}"
            if is_dns1123_subdomain(webhook.name) and "/" not in name and label_key_problem(key) is None:
                self._add(key, value)

    def _add(self, key: str, value: str) -> None:
        self.annotations.setdefault(key, value)


def _encode(value: JSON) -> str:
    return msgspec.json.encode(value).decode()
