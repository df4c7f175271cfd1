"""Runs the two phases of webhooks: mutating ones in turn, validating ones all at once; merges denials, limits warnings.

Upstream: dispatcher.go of k8s.io/apiserver pkg/admission/plugin/webhook/mutating, and of validating. Each mutating
webhook gets the patches of the previous ones. Every denial of a validating webhook is reported.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.review_response_and_patch import (
    PatchedObject,
    ReviewError,
    WebhookResponse,
    check_patched,
)
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.errors_and_deadline import (
    CallingError,
    StatusError,
    denial,
    forbidden,
    internal,
    refusal,
    timed_out,
)
from fleethook.engines.dispatch.match.selectors_and_decision import CallDecider, RequestContext, VersionedRequest
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.admission import Response, StatusCause, StatusDetails
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON
from fleethook.patch import PatchError

MAX_CALLS: Final = 128
"""Webhook calls for one request in one phase; a reinvocation counts as a call.

Kubernetes has no such limit, since one administrator writes all configurations of a cluster. Here each workspace writes
its own. A request beyond it is refused even with failurePolicy Ignore. Otherwise, an author of a large request could
switch off such webhooks.
"""


def _refuse_calls(attributes: Attributes) -> StatusError:
    text = f"it matches more than {MAX_CALLS} webhooks, the limit of one request"
    return forbidden(attributes.resource_name, attributes.name, text)


class MutatingPhase:
    """The mutating phase of one request.

    kube-apiserver calls round 0, then round 1 if reinvocation is needed. Its built-in plugins run in between.

    Attributes:
        attributes: The request with the current object.
        needs_reinvocation: Whether a webhook changed the object, so that earlier webhooks are called again.
    """

    def __init__(self, relevant: Sequence[RelevantWebhook], attributes: Attributes, context: RequestContext) -> None:
        """Initialize the phase.

        Args:
            relevant: The webhooks whose rules match the request, in order.
            attributes: The request.
            context: The context of the request.
        """
        self._relevant: Final = tuple(relevant)
        self._context: Final = context
        self._decider: Final = CallDecider(context)
        self._invoked: set[str] = set()
        self._to_reinvoke: set[str] = set()
        self._last_output: JSON = attributes.object
        self._calls = 0
        self.attributes = attributes
        self.needs_reinvocation = False

    async def run_round(self, number: int) -> None:
        """Call the webhooks; in round 1, those that need reinvocation.

        Raises:
            StatusError: The request is refused.
        """
        if number and await self._context.patching.differ(self.attributes.object, self._last_output):
            self._require_reinvocation()
        try:
            for relevant in self._relevant:
                if not await self._decider.should_call(relevant, self.attributes):
                    continue
                if number == 0 or relevant.webhook.uid in self._to_reinvoke:
                    versioned = await self._decider.build_versioned(relevant, self.attributes)
                    await self._call(versioned, number)
        finally:
            self._last_output = self.attributes.object

    def _require_reinvocation(self) -> None:
        self._to_reinvoke |= self._invoked

    async def _call(self, versioned: VersionedRequest, number: int) -> None:
        webhook = versioned.relevant.webhook
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise _refuse_calls(self.attributes)
        try:
            changed = await self._call_and_patch(versioned, number)
        except CallingError as error:
            self._context.audit.record_call(webhook, round_number=number, mutated=False)
            self._record_invocation(webhook)
            if not webhook.fails_open:
                raise internal(str(error)) from error
            self._context.audit.record_fail_open(webhook, round_number=number, index=webhook.position)
            if self._context.deadline.remaining <= 0 or error.cut_short:
                raise timed_out() from error
            return
        except StatusError:
            self._context.audit.record_call(webhook, round_number=number, mutated=False)
            raise
        if changed:
            self._require_reinvocation()
            self.needs_reinvocation = True
        self._record_invocation(webhook)

    def _record_invocation(self, webhook: Webhook) -> None:
        if webhook.reinvoke_if_needed:
            self._invoked.add(webhook.uid)

    async def _call_and_patch(self, versioned: VersionedRequest, number: int) -> bool:
        """Call a webhook and apply its patch; return whether the patch changed the object."""
        relevant, kind, attributes = versioned
        webhook, context = relevant.webhook, self._context
        answer = await context.call_webhook(relevant, attributes, kind=kind, seconds=context.deadline.remaining)
        context.audit.record_annotations(webhook, answer.audit_annotations)
        context.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise denial(webhook.name, answer.status)
        made, operations, changed = await self._patch(webhook, attributes.object, answer, kind=kind)
        if not operations:
            context.audit.record_call(webhook, round_number=number, mutated=False)
            return False
        if changed:
            # kube-apiserver sets defaults after each patch, so that the next webhook sees them
            # (k8s.io/apiserver v0.36 pkg/admission/plugin/webhook/mutating/dispatcher.go, callAttrMutatingHook).
            made = await context.set_defaults(made, kind)
        if kind != self.attributes.kind:
            # The client and the next webhook get the object in the version of the request.
            made = await context.convert(made, self.attributes.kind)
            changed = await context.patching.differ(made, self.attributes.object)
        if changed:
            self.attributes = self.attributes._replace(object=made)
        context.audit.record_call(webhook, round_number=number, mutated=changed)
        if self.attributes.resource_name != "secrets":
            # An apiserver records patches from the audit level Request on. The level is unknown here, and the content
            # of a Secret must not reach a log.
            context.audit.record_patch(webhook, operations, size=len(answer.patch), round_number=number)
        return changed

    async def _patch(
        self, webhook: Webhook, document: JSON, answer: WebhookResponse, *, kind: GroupVersionKind
    ) -> PatchedObject:
        try:
            patched = await self._context.patching.patch(document, answer)
        except ReviewError as error:
            raise CallingError(webhook.name, str(error)) from None
        except PatchError as error:
            raise internal(f'the patch of admission webhook "{webhook.name}" does not apply: {error}') from None
        check_patched(webhook.name, patched, self.attributes.resource, kind)
        return patched


async def run_validating_phase(
    relevant: Sequence[RelevantWebhook], attributes: Attributes, context: RequestContext
) -> list[StatusError]:
    """Call the validating webhooks and return their denials, in the order of the webhooks.

    An apiserver waits for all webhooks as well, but reports only the first denial that arrives.

    Raises:
        StatusError: The filters of a webhook have no result, or too many webhooks match. No webhook is called then.
    """
    decider = CallDecider(context)
    webhooks: list[RelevantWebhook] = []
    for webhook in relevant:
        if await decider.should_call(webhook, attributes):
            webhooks.append(webhook)
        if len(webhooks) > MAX_CALLS:
            raise _refuse_calls(attributes)
    versioned = [await decider.build_versioned(webhook, attributes) for webhook in webhooks]
    if versioned:
        context.deadline.require_time()
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(_call(request, context)) for request in versioned]
    refusals: list[StatusError] = []
    # The order of the webhooks, not of their answers: the same request gets the same message.
    for position, (sent, call) in enumerate(zip(versioned, calls, strict=True)):
        refusal = _evaluate_result(sent, call.result(), context, position=position)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


async def _call(versioned: VersionedRequest, context: RequestContext) -> WebhookResponse | CallingError | StatusError:
    relevant, kind, attributes = versioned
    try:
        return await context.call_webhook(relevant, attributes, kind=kind, seconds=context.deadline.remaining)
    except (CallingError, StatusError) as error:
        return error


def _evaluate_result(
    versioned: VersionedRequest,
    result: WebhookResponse | CallingError | StatusError,
    context: RequestContext,
    *,
    position: int,
) -> StatusError | None:
    """Record the result of a call, and return the denial of the request, if any."""
    webhook = versioned.relevant.webhook
    if isinstance(result, StatusError):
        return result
    if isinstance(result, CallingError):
        if not webhook.fails_open:
            return internal(str(result))
        if result.cut_short:
            # An apiserver could no longer store the object. Admitting it would let a caller with a short timeout
            # bypass every webhook with failurePolicy Ignore.
            return timed_out()
        context.audit.record_fail_open(webhook, index=position)
        return None
    context.audit.record_annotations(webhook, result.audit_annotations)
    context.warnings.extend(result.warnings)
    return None if result.allowed else denial(webhook.name, result.status)


# The limit of all warnings in characters, and the limit of each warning if they exceed the first one (k8s.io/apiserver
# pkg/endpoints/filters/warning.go).
_MAX_WARNINGS: Final = 4096
_MAX_TRUNCATED_WARNING: Final = 256
# A pattern, not a loop: a text may have 8 MiB, and a loop takes 1 us for 10 characters. UTF-8 cannot encode surrogates,
# and a header must be UTF-8.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def limit_warnings(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings for a client: without duplicates, empty texts and control characters.

    Up to 4,096 characters are returned in full. Otherwise each warning is truncated to 256 characters, and the first
    ones that fit are returned.
    """
    kept = list(dict.fromkeys(clean for text in texts if (clean := _UNPRINTABLE.sub("", text))))
    if sum(map(len, kept)) <= _MAX_WARNINGS:
        return tuple(kept)
    remaining, found = _MAX_WARNINGS, []
    for text in dict.fromkeys(text[:_MAX_TRUNCATED_WARNING] for text in kept):
        if len(text) > remaining:
            break
        remaining -= len(text)
        found.append(text)
    return tuple(found)


def build_refusal(refusals: Sequence[StatusError], audit: Audit, warnings: Sequence[str]) -> Response:
    """Return a denial: the first reason is its status, the other reasons are its causes."""
    status = refusals[0].status
    if len(refusals) > 1:
        others = (refusal.status for refusal in refusals[1:])
        more = tuple(StatusCause(message=other.message, reason=other.reason) for other in others)
        details = status.details or StatusDetails()
        details = msgspec.structs.replace(details, causes=(*details.causes, *more))
        status = msgspec.structs.replace(status, details=details)
    return msgspec.structs.replace(
        refusal(refusals[0]), warnings=limit_warnings(warnings), audit_annotations=audit.annotations, status=status
    )
