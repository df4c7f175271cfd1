"""Runs the validating phase: all webhooks are called at once, and every denial is reported.

Upstream: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

import asyncio
from collections.abc import Sequence

from fleethook.engines.dispatch.call.admission_review import WebhookResponse
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, internal, timed_out
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.match.attributes import Attributes
from fleethook.engines.dispatch.match.should_call import MATCHED_PER_TURN, CallDecider, RequestContext, VersionedRequest
from fleethook.engines.dispatch.request_limits import too_many_webhooks


async def run_validating_phase(
    relevant: Sequence[RelevantHook], attributes: Attributes, context: RequestContext
) -> list[StatusError]:
    """Call the validating webhooks and return their denials, in the order of the webhooks.

    An apiserver waits for all webhooks as well, but reports only the first denial that arrives.

    Raises:
        StatusError: The filters of a webhook have no result, or too many webhooks match. No webhook is called then.
    """
    decider = CallDecider(context)
    wanted: list[RelevantHook] = []
    for number, one in enumerate(relevant, 1):
        if number % MATCHED_PER_TURN == 0:
            await context.turns.pause(attributes.cluster)
        if await decider.should_call(one, attributes):
            wanted.append(one)
        if len(wanted) > context.max_calls:
            raise too_many_webhooks(attributes, context.max_calls)
    versioned = [await decider.build_versioned(one, attributes) for one in wanted]
    if versioned:
        context.deadline.require_time()
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(_call(one, context)) for one in versioned]
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
    hook = versioned.relevant.hook
    if isinstance(result, StatusError):
        return result
    if isinstance(result, CallingError):
        if not hook.fails_open:
            return internal(str(result))
        if result.cut_short:
            # An apiserver could no longer store the object. Admitting it would let a caller with a short timeout
            # bypass every webhook with failurePolicy Ignore.
            return timed_out()
        context.audit.record_fail_open(hook, index=position)
        return None
    context.audit.record_annotations(hook, result.audit_annotations)
    context.warnings.extend(result.warnings)
    return None if result.allowed else result.denial(hook.name)
