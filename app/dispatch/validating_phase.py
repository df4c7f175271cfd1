"""The validating phase: all webhooks at once, and every one of them is heard (research 2.10)."""

import asyncio
from collections.abc import Sequence

from app.dispatch.admission_review import WebhookResponse
from app.dispatch.attributes import Attributes
from app.dispatch.errors import CallingError, StatusError, internal, timed_out
from app.dispatch.hook_index import RelevantHook
from app.dispatch.limits import too_many_webhooks
from app.dispatch.should_call import MATCHED_PER_TURN, CallDecider, RequestContext, VersionedRequest


async def run_validating_phase(
    relevant: Sequence[RelevantHook], attributes: Attributes, context: RequestContext
) -> list[StatusError]:
    """Return what the webhooks have against a request, in their order.

    An apiserver waits for all as well, but tells only the first that happens to answer.

    Raises:
        StatusError: It cannot be told who is to be asked, or they are too many; then nobody is.
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
    versioned = [await decider.versioned(one, attributes) for one in wanted]
    if versioned and context.deadline.remaining <= 0:
        raise timed_out()
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(_ask(one, context)) for one in versioned]
    refusals: list[StatusError] = []
    # In the order of the webhooks and not of their answers, so that the same request is told the same.
    for position, (sent, task) in enumerate(zip(versioned, asked, strict=True)):
        refusal = _hear(sent, task.result(), context, position=position)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


async def _ask(versioned: VersionedRequest, context: RequestContext) -> WebhookResponse | CallingError | StatusError:
    relevant, kind, attributes = versioned
    try:
        return await context.call_webhook(relevant, attributes, kind=kind, seconds=context.deadline.remaining)
    except (CallingError, StatusError) as error:
        return error


def _hear(
    versioned: VersionedRequest,
    heard: WebhookResponse | CallingError | StatusError,
    context: RequestContext,
    *,
    position: int,
) -> StatusError | None:
    """Note what a webhook said, and return why it refuses the request, if it does."""
    hook = versioned.relevant.hook
    if isinstance(heard, StatusError):
        return heard
    if isinstance(heard, CallingError):
        if not hook.fails_open:
            return internal(str(heard))
        if heard.cut_short:
            # An apiserver could not store the object any more. To admit it would let a caller with a short timeout
            # past every webhook that ignores failures.
            return timed_out()
        context.audit.record_fail_open(hook, index=position)
        return None
    context.audit.record_annotations(hook, heard.audit_annotations)
    context.warnings.extend(heard.warnings)
    return None if heard.allowed else heard.denial(hook.name)
