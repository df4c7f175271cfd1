"""Tries webhooks with one request each, alone, and prints the results of ``fleethook webhook test``."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fleethook.api_schema import check_object
from fleethook.cli.options import Output
from fleethook.cli.output.findings_output import Case, print_junit
from fleethook.cli.output.text_output import styled, write_json, write_styled
from fleethook.engines.dispatch.call.admission_review import ReviewError
from fleethook.engines.dispatch.call.call import Audit, Deadline
from fleethook.engines.dispatch.call.patching import check_patched
from fleethook.engines.dispatch.dispatch_errors import CallingError, StatusError, forbidden
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.hooks.hook_index import RelevantHook
from fleethook.engines.dispatch.hooks.hooks import PHASES, Phase
from fleethook.engines.dispatch.match.rules import Attributes
from fleethook.engines.dispatch.match.should_call import CallDecider, RequestContext
from fleethook.engines.dispatch.review.request_plan import PlannedRequest
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


async def try_webhooks(dispatcher: Dispatcher, planned: PlannedRequest, deadline: Deadline) -> AsyncIterator[Trial]:
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
    if problem := _find_misfit(dict(as_object(patched.object)), dict(as_object(versioned.attributes.object))):
        return end("failed", f"after its patch, the apiserver refuses the object: {problem}")
    is_secret = attributes.resource_name == "secrets"
    return end("changed", patch=tuple(_show(one, is_secret=is_secret) for one in patched.operations), warnings=warnings)


def _find_misfit(patched: JSONObject, before: JSONObject) -> str:
    """Return the first error that a patch adds to an object of a built-in kind, ``""`` if it adds none."""
    known = check_object(before)
    found = (one for one in check_object(patched) if one.level == "error" and one not in known)
    return next((f"{one.field}: {one.message}" for one in found), "")


def _show(operation: JSON, *, is_secret: bool) -> JSONObject:
    """Return an operation for a report."""
    shown = dict(as_object(operation))
    return {**shown, "value": REDACTED} if is_secret and "value" in shown else shown


MAX_SHOWN: Final = 20
"""Outcomes of one kind for one webhook that text shows without ``--verbose``."""
_MAX_VALUE: Final = 80
_STYLES: Final = {"refused": "bold red", "failed": "bold red", "changed": "yellow", "allowed": "green"}
_SHOWN: Final = ("refused", "failed", "changed")
_UNCALLED: Final = "requests"
"""Stands for a webhook if a request is refused before any webhook is found."""


class TriedWebhook(NamedTuple):
    """A request, and the outcome of one webhook for it."""

    planned: PlannedRequest
    trial: Trial

    @property
    def name(self) -> str:
        """The operation and the object: ``CREATE Deployment web/shop``."""
        cluster = self.planned.cluster
        return f"{self.planned.request.operation} {self.planned.subject}{f' in {cluster}' if cluster else ''}"

    @property
    def webhook(self) -> str:
        """The webhook, as ``CONFIGURATION/WEBHOOK``."""
        trial = self.trial
        return f"{trial.configuration}/{trial.webhook}" if trial.webhook else _UNCALLED


def print_results(tried: Sequence[TriedWebhook], output: Output, *, verbose: bool) -> None:
    """Write the outcomes to standard output."""
    if output is Output.JSON:
        _print_json(tried)
        return
    if output is Output.JUNIT:
        called = [one for one in tried if one.trial.outcome != "not sent"]
        print_junit("fleethook webhook test", [_make_case(one) for one in called])
    else:
        _print_text(tried, verbose=verbose)


def _print_text(tried: Sequence[TriedWebhook], *, verbose: bool) -> None:
    printed: Counter[tuple[str, str]] = Counter()
    for one in tried:
        outcome = one.trial.outcome
        if outcome not in _SHOWN and not (verbose and outcome == "allowed"):
            continue
        printed[one.webhook, outcome] += 1
        if printed[one.webhook, outcome] > MAX_SHOWN and not verbose:
            continue
        write_styled(styled(f"{outcome:<8}", _STYLES[outcome]), styled(f"{one.name}, {one.webhook}"))
        for line in _describe(one.trial):
            write_styled(styled(f"         {line}"))
    for (webhook, shown), number in printed.items():
        if number > MAX_SHOWN and not verbose:
            write_styled(styled(f"{webhook}: {number - MAX_SHOWN:,} more {shown} (--verbose prints them)"))
    warnings = Counter((one.webhook, text) for one in tried for text in one.trial.warnings)
    for (webhook, text), number in sorted(warnings.items()):
        write_styled(styled("warning ", "yellow"), styled(f"{webhook}: {text} (reviews: {number:,})"))
    for row in _summarize(tried):
        numbers = ", ".join(f"{number:,} {name}" for name, number in row.items() if name != "webhook" and number)
        write_styled(styled(f"{row['webhook']}: {numbers or 'no review'}"))
    if not tried:
        write_styled(styled("no request matches a rule"))


def _describe(trial: Trial) -> Iterator[str]:
    if trial.message:
        yield trial.message
    for operation in trial.patch:
        value = f": {_shorten(operation['value'])}" if "value" in operation else ""
        source = f" from {operation['from']}" if "from" in operation else ""
        yield f"{operation.get('op')} {operation.get('path')}{source}{value}"


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def _summarize(tried: Sequence[TriedWebhook]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for one in tried:
        empty = {"webhook": one.webhook, "allowed": 0, "changed": 0, "refused": 0, "failed": 0, "not sent": 0}
        rows.setdefault(one.webhook, empty)[one.trial.outcome] += 1
    return list(rows.values())


def _print_json(tried: Sequence[TriedWebhook]) -> None:
    results = []
    for planned, trial in tried:
        request = planned.validating
        place = {"cluster": planned.cluster, "operation": request.operation, "kind": request.kind.kind}
        name = {"namespace": request.namespace, "name": request.name}
        results.append({**place, **name, **msgspec.to_builtins(trial)})
    summary = [
        {"notSent" if name == "not sent" else name: value for name, value in row.items()} for row in _summarize(tried)
    ]
    write_json({"webhooks": summary, "results": results})


def _make_case(one: TriedWebhook) -> Case:
    is_bad = one.trial.outcome in ("refused", "failed")
    return Case(one.webhook, one.name, list(_describe(one.trial)) if is_bad else [])
