"""Tries webhooks with one request each, alone."""

from collections.abc import AsyncIterator

from fleethook.api_schema import check_object
from fleethook.cli.trials import Trial
from fleethook.engines.dispatch.call.admission_review import ReviewError, check_patched
from fleethook.engines.dispatch.call.call import Audit, Deadline
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, forbidden
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.input_request import InputRequest
from fleethook.engines.dispatch.match.rules import Attributes
from fleethook.engines.dispatch.match.should_call import CallDecider, RequestContext
from fleethook.engines.dispatch.webhooks.webhook import PHASES
from fleethook.engines.dispatch.webhooks.webhook_index import RelevantWebhook
from fleethook.model.json import JSONObject, as_object
from fleethook.patch import PatchError


async def try_webhooks(dispatcher: Dispatcher, planned: InputRequest, deadline: Deadline) -> AsyncIterator[Trial]:
    """Call each webhook whose rules match a request, and yield the outcomes.

    In an apiserver, later webhooks get the patches of earlier ones, and a refusal ends the request. Here each webhook
    gets the request itself, so that one does not hide the faults of another. failurePolicy has no effect: a failed call
    is reported as such.

    Args:
        dispatcher: Calls the webhooks.
        planned: The request; it should be a dry run.
        deadline: The end of all calls.

    Raises:
        StatusError: The owner of the schema is unclear, or the request cannot be forwarded.
    """
    for phase in PHASES:
        request = planned.request if phase == "mutating" else planned.validating
        target = await dispatcher.find_target(request, cluster=planned.cluster, phase=phase)
        if target.ownership.cluster is None:
            attributes = target.attributes
            raise forbidden(attributes.resource_name, attributes.name, target.ownership.problem)
        if not target.relevant:
            continue
        context = await dispatcher.build_context(target, deadline, Audit(), [])
        decider = CallDecider(context)
        for one in target.relevant:
            trial = describe(planned, one.hook.phase, f"{one.hook.configuration}/{one.hook.name}")
            yield await _try(trial, one, target.attributes, decider, context)


def describe(planned: InputRequest, phase: str, asked: str) -> Trial:
    """Return the outcome of a webhook for a request, before it is known."""
    request, (configuration, _, webhook) = planned.validating, asked.partition("/")
    members: JSONObject = {
        "cluster": planned.cluster, "operation": request.operation, "kind": request.kind.kind,
        "namespace": request.namespace, "name": request.name, "phase": phase, "configuration": configuration,
        "webhook": webhook,
    }  # fmt: skip
    subject = f"{request.operation} {planned.subject}{f' in {planned.cluster}' if planned.cluster else ''}"
    return Trial(asked, subject, members, "not sent")


async def _try(
    trial: Trial, relevant: RelevantWebhook, attributes: Attributes, decider: CallDecider, context: RequestContext
) -> Trial:
    hook = relevant.hook
    try:
        if not await decider.should_call(relevant, attributes):
            return trial
        versioned = await decider.build_versioned(relevant, attributes)
        answer = await context.call_webhook(
            relevant, versioned.attributes, kind=versioned.kind, seconds=context.deadline.remaining
        )
        trial = trial._replace(warnings=answer.warnings)
        if not answer.allowed:
            return trial._replace(outcome="refused", message=str(answer.denial(hook.name)))
        before = versioned.attributes.object
        patched = await context.patching.patch(before, answer)
        check_patched(hook.name, patched, attributes.resource, versioned.kind)
    except (CallingError, StatusError, PatchError, ReviewError) as error:
        return trial._replace(outcome="failed", message=str(error), warnings=())
    if not patched.changed:
        return trial._replace(outcome="allowed")
    if problem := _find_misfit(dict(as_object(patched.object)), dict(as_object(before))):
        return trial._replace(
            outcome="failed", message=f"after its patch, the apiserver refuses the object: {problem}", warnings=()
        )
    return trial._replace(outcome="changed", patch=tuple(patched.operations), before=before, after=patched.object)


def _find_misfit(patched: JSONObject, before: JSONObject) -> str:
    """Return the first error that a patch adds to an object of a built-in kind, ``""`` if it adds none."""
    known = check_object(before)
    found = (one for one in check_object(patched) if one.level == "error" and one not in known)
    return next((f"{one.field}: {one.message}" for one in found), "")
