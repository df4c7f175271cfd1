"""Tries webhooks with one request, each alone, and reports refusals, changes and failures."""

from collections.abc import AsyncIterator
from typing import Any, Final, Literal

import msgspec

from fleethook.engines.dispatch.call.admission_review import ReviewError
from fleethook.engines.dispatch.call.call import Audit, Deadline
from fleethook.engines.dispatch.call.patching import check_patched
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, forbidden
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.hooks.hooks import PHASES, Phase
from fleethook.engines.dispatch.match.attributes import Attributes
from fleethook.engines.dispatch.match.should_call import CallDecider, RequestContext
from fleethook.model.admission import AdmissionRequest
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch import PatchError

Outcome = Literal["allowed", "changed", "refused", "failed", "not sent"]

REDACTED: Final = "REDACTED"
"""Stands for the values of a Secret's patch, which must not reach a log."""


class Trial(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of one webhook for one request.

    Attributes:
        phase: Its phase.
        configuration: Name of its configuration.
        webhook: Its name.
        outcome: ``not sent`` if its filters or conditions leave the request out, ``failed`` without a usable answer.
        message: The reason of a refusal or failure.
        patch: The operations of its patch; values of Secrets are redacted.
        warnings: Its warnings.
    """

    phase: Phase
    configuration: str
    webhook: str
    outcome: Outcome
    message: str = ""
    patch: tuple[JSONObject, ...] = ()
    warnings: tuple[str, ...] = ()


async def try_webhooks(
    dispatcher: Dispatcher, request: AdmissionRequest, *, cluster: str, deadline: Deadline
) -> AsyncIterator[Trial]:
    """Call each webhook whose rules match a request, and yield the outcomes.

    In an apiserver, later webhooks get the patches of earlier ones, and a refusal ends the request. Here each webhook
    gets the request itself, so that one does not hide the faults of another. failurePolicy has no effect: a failed call
    is reported as such.

    Args:
        dispatcher: Calls the webhooks.
        request: The request; it should be a dry run.
        cluster: The logical cluster of the request.
        deadline: The end of all calls.

    Raises:
        StatusError: The owner of the schema is unclear, or the request cannot be forwarded.
    """
    for phase in PHASES:
        target = await dispatcher.find_target(request, cluster=cluster, phase=phase)
        if target.ownership.cluster is None:
            attributes = target.attributes
            raise forbidden(attributes.resource_name, attributes.name, target.ownership.problem)
        if not target.relevant:
            continue
        context = await dispatcher.build_context(target, deadline, Audit(), [])
        decider = CallDecider(context)
        for one in target.relevant:
            yield await _try(one, target.attributes, decider, context)


async def _try(relevant: RelevantHook, attributes: Attributes, decider: CallDecider, context: RequestContext) -> Trial:
    hook = relevant.hook

    def end(outcome: Outcome, message: str = "", **members: Any) -> Trial:
        return Trial(hook.phase, hook.configuration, hook.name, outcome, message, **members)

    try:
        if not await decider.should_call(relevant, attributes):
            return end("not sent")
        versioned = await decider.build_versioned(relevant, attributes)
        answer = await context.call_webhook(
            relevant, versioned.attributes, kind=versioned.kind, seconds=context.deadline.remaining
        )
        warnings = answer.warnings
        if not answer.allowed:
            return end("refused", str(answer.denial(hook.name)), warnings=warnings)
        patched = await context.patching.patch(versioned.attributes.object, answer)
        check_patched(hook.name, patched, attributes.resource, versioned.kind)
    except (CallingError, StatusError, PatchError, ReviewError) as error:
        return end("failed", str(error))
    if not patched.changed:
        return end("allowed", warnings=warnings)
    is_secret = attributes.resource_name == "secrets"
    return end("changed", patch=tuple(_show(one, is_secret=is_secret) for one in patched.operations), warnings=warnings)


def _show(operation: JSON, *, is_secret: bool) -> JSONObject:
    """Return an operation for a report."""
    shown = dict(as_object(operation))
    return {**shown, "value": REDACTED} if is_secret and "value" in shown else shown
