"""The validating phase: all webhooks at once, and every one of them is heard (research 2.10)."""

import asyncio
from collections.abc import Sequence

from app.dispatch.asking import Asking, Means, Versioned
from app.dispatch.attributes import Attributes
from app.dispatch.failures import CallingError, StatusError, internal, timed_out
from app.dispatch.hook_set import Relevant
from app.dispatch.review import Answer


async def validate(relevant: Sequence[Relevant], attributes: Attributes, means: Means) -> list[StatusError]:
    """Return what the webhooks have against a request, in their order.

    An apiserver waits for all as well, but tells only the first that happens to answer.

    Raises:
        StatusError: It cannot be told who is to be asked; then nobody is.
    """
    asking = Asking(means)
    wanted = [one for one in relevant if await asking.is_asked(one, attributes)]
    versioned = [await asking.versioned(one, attributes) for one in wanted]
    if versioned and means.deadline.remaining <= 0:
        raise timed_out()
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(_ask(one, means)) for one in versioned]
    refusals: list[StatusError] = []
    # In the order of the webhooks and not of their answers, so that the same request is told the same.
    for position, (one, task) in enumerate(zip(versioned, asked, strict=True)):
        refusal = _hear(one, task.result(), means, position=position)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


async def _ask(versioned: Versioned, means: Means) -> Answer | CallingError | StatusError:
    relevant, kind, attributes = versioned
    seconds = min(relevant.hook.seconds, means.deadline.remaining)
    try:
        return await means.ask(relevant, attributes, kind=kind, seconds=seconds)
    except (CallingError, StatusError) as error:
        return error


def _hear(
    versioned: Versioned, heard: Answer | CallingError | StatusError, means: Means, *, position: int
) -> StatusError | None:
    """Note what a webhook said, and return why it refuses the request, if it does."""
    hook = versioned.relevant.hook
    if isinstance(heard, StatusError):
        return heard
    if isinstance(heard, CallingError):
        if not hook.fails_open:
            return internal(str(heard))
        means.audit.failed_open(hook, index=position)
        return None
    means.audit.given(hook, heard.audit_annotations)
    means.warnings.extend(heard.warnings)
    return None if heard.allowed else heard.denial(hook.name)
