"""Which webhooks a request goes to, and for each other one why not: by the functions that dispatch it (research 6)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from app.control.slices import Pauses
from app.dispatch.attributes import Attributes
from app.dispatch.audit import Audit
from app.dispatch.call import Deadline
from app.dispatch.dispatcher import Dispatcher, Target
from app.dispatch.errors import StatusError
from app.dispatch.hook_index import RelevantHook
from app.dispatch.hooks import PHASES, Hook, Phase
from app.dispatch.match import (
    NamespaceLabels,
    Stage,
    Verdict,
    build_rule_attributes,
    check_filters,
    find_barrier,
    match_namespace,
    match_object,
)
from app.dispatch.own_endpoints import OwnEndpoints
from app.dispatch.rules import Invocation, find_nearest_miss
from app.dispatch.should_call import CallDecider, RequestContext
from app.model.admission import AdmissionRequest
from app.model.gvk import GroupVersionKind

# Admission and storage together may take so long in an apiserver (research 2.14).
BUDGET_SECONDS: Final = 34.0

_SILENT_FAIL: Final = (
    "its last calls for this cluster had no answer, so one call at a time is tried: while it is under way, other "
    "requests are refused at once (failurePolicy Fail)"
)
_SILENT_IGNORE: Final = (
    "its last calls for this cluster had no answer; it is called all the same, since only a failure of the webhook "
    "itself may be ignored (failurePolicy Ignore)"
)

# Units of work until other clusters have a turn, about 3 ms, and those that each webhook takes besides its rules.
_SLICE: Final = 1_000
_PER_HOOK: Final = 40

Decision = Literal["call", "skip", "error"]


class Predicate(msgspec.Struct, frozen=True, rename="camel"):
    """One question, and its answer."""

    stage: str
    ok: bool
    reason: str


class ExplainedHook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One webhook, and whether it is asked."""

    configuration: str
    webhook: str
    uid: str
    decision: Decision
    stage: str
    """The first question that decided, ``""`` where all were answered with yes."""
    reason: str
    failure_policy: str
    timeout_seconds: float
    predicates: tuple[Predicate, ...]
    """Every question, also those after the one that decided."""
    nearest_miss: str = ""
    sent_as: str = ""
    notes: tuple[str, ...] = ()


class ExplainedOwner(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who owns the schema."""

    case: str
    cluster: str | None
    trace: tuple[str, ...]
    problem: str = ""
    binding: str = ""
    export: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What becomes of a request."""

    cluster: str
    resource: str
    operation: str
    owner: ExplainedOwner
    mutating: tuple[ExplainedHook, ...]
    validating: tuple[ExplainedHook, ...]
    shadowed: tuple[str, ...] = ()
    """Webhooks of the request's own cluster that would be asked if the schema were its own."""
    notes: tuple[str, ...] = ()


async def explain(
    dispatcher: Dispatcher, request: AdmissionRequest, *, cluster: str, deadline: Deadline
) -> Explanation:
    """Return what becomes of a request; nobody's admission webhook is called.

    Raises:
        msgspec.DecodeError: One of its objects is no JSON.
        StatusError: Its objects are none that can be sent on.
    """
    found: dict[Phase, tuple[ExplainedHook, ...]] = {}
    for phase in PHASES:
        target = await dispatcher.find_target(request, cluster=cluster, phase=phase)
        context = await dispatcher.build_context(target, deadline, Audit(), [])
        found[phase] = await _explain_phase(dispatcher, target, context, phase)
    attributes, ownership = target.attributes, target.ownership
    return Explanation(
        cluster=cluster,
        resource="/".join(part for part in (attributes.resource_name, attributes.subresource) if part),
        operation=attributes.operation,
        owner=ExplainedOwner(
            case=ownership.case,
            cluster=ownership.cluster,
            trace=ownership.trace,
            problem=ownership.problem,
            binding=ownership.binding,
            export=ownership.export,
        ),
        mutating=found["mutating"],
        validating=found["validating"],
        shadowed=await _shadowed(dispatcher, target),
        notes=tuple(_notes(target, found, dispatcher.limits.webhooks)),
    )


async def _explain_phase(
    dispatcher: Dispatcher, target: Target, context: RequestContext, phase: Phase
) -> tuple[ExplainedHook, ...]:
    """Return what becomes of the webhooks of one phase; other clusters have turns in between."""
    attributes = target.attributes
    hooks = await dispatcher.find_hooks(target, phase)
    context = context._replace(
        namespace=await dispatcher.namespace(attributes, await dispatcher.find_hooks(target, phase))
    )
    silent = partial(dispatcher.is_silent, consumer=attributes.cluster)
    relevant = {one.hook.uid: one for one in target.relevant}
    decider = _Deciders(CallDecider(context), CallDecider(context), context.own)
    pauses = Pauses(_SLICE)
    found: list[ExplainedHook] = []
    for hook in hooks:
        found.append(await _explain(hook, relevant.get(hook.uid), target, decider, silent))
        if pauses.due(_PER_HOOK + hook.weight):
            await dispatcher.turns.pause(attributes.cluster)
    return tuple(found)


class _Deciders(NamedTuple):
    """Judges conditions: the budget for those that a dispatch judges is used for no others."""

    dispatched: CallDecider
    others: CallDecider
    own: OwnEndpoints
    """The webhooks that are this server itself."""


async def _explain(
    hook: Hook, relevant: RelevantHook | None, target: Target, decider: _Deciders, is_silent: Callable[[Hook], bool]
) -> ExplainedHook:
    attributes, namespace = target.attributes, decider.dispatched.namespace
    if relevant is None:
        answers = _unmatched(hook, target, namespace)
        barrier: Verdict | None = answers[0]
        # What conditions would say of the object as it is: a rule may be what is about to be changed.
        invocation = Invocation(attributes.resource, attributes.subresource, attributes.kind, -1)
        answers += await _conditions(RelevantHook(hook, invocation), attributes, decider.others)
    else:
        rest = check_filters(relevant, attributes, namespace)
        answers = (_matched(relevant, attributes), *rest)
        judging = decider.dispatched if find_barrier(rest) is None else decider.others
        conditions = await _conditions(relevant, attributes, judging)
        own = _own(hook, decider.own)
        barrier = find_barrier(rest) or find_barrier(conditions) or find_barrier(own)
        answers += (*conditions, *own)
    nearest = (
        None if relevant is not None or target.exempt else find_nearest_miss(hook, build_rule_attributes(attributes))
    )
    return ExplainedHook(
        configuration=hook.configuration,
        webhook=hook.name,
        uid=hook.uid,
        decision="call" if barrier is None else "skip" if barrier.error is None else "error",
        stage="" if barrier is None else barrier.stage,
        reason="every question is answered with yes" if barrier is None else barrier.reason,
        failure_policy="Ignore" if hook.fails_open else "Fail",
        timeout_seconds=hook.seconds,
        predicates=tuple(Predicate(one.stage, one.ok, one.reason) for one in answers),
        nearest_miss="" if nearest is None else str(nearest),
        sent_as=_kind_text(relevant.invocation.kind) if relevant is not None else "",
        notes=tuple(_hook_notes(hook, attributes, relevant, silent=is_silent(hook))) if barrier is None else (),
    )


def _matched(relevant: RelevantHook, attributes: Attributes) -> Verdict:
    invocation = relevant.invocation
    rule = f"rules[{invocation.rule}]"
    if invocation.resource == attributes.resource:
        return Verdict(Stage.RULES, ok=True, reason=f"{rule} is about the request")
    group, version, resource = invocation.resource
    other = f"{group or 'core'}/{version} {resource}"
    return Verdict(Stage.RULES, ok=True, reason=f"{rule} is about {other}, which is the same resource")


def _unmatched(hook: Hook, target: Target, namespace: NamespaceLabels) -> tuple[Verdict, ...]:
    attributes = target.attributes
    if target.exempt:
        reason = f"webhooks are never asked about a {attributes.kind.kind}"
    elif not hook.rules:
        reason = "it has no rules"
    else:
        also = "" if hook.equivalent or len(target.equivalents) < 2 else "; matchPolicy is Exact"
        reason = f"no rule is about {attributes.operation} of {_path(attributes)}{also}"
    return (
        Verdict(Stage.RULES, ok=False, reason=reason),
        match_namespace(hook, attributes, namespace),
        match_object(hook, attributes),
    )


def _path(attributes: Attributes) -> str:
    group, version, resource = attributes.resource
    path = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    scope = f"namespace {attributes.namespace}" if attributes.namespace else "no namespace"
    return f"{group or 'core'}/{version} {path} in {scope}"


async def _conditions(relevant: RelevantHook, attributes: Attributes, decider: CallDecider) -> tuple[Verdict, ...]:
    if not relevant.hook.conditions or relevant.invocation.kind is None:
        return ()
    try:
        return (await decider.evaluate_conditions(relevant.hook, await decider.versioned(relevant, attributes)),)
    except StatusError as error:
        return (Verdict(Stage.CONDITIONS, ok=False, reason=str(error), error=error),)


def _own(hook: Hook, own: OwnEndpoints) -> tuple[Verdict, ...]:
    """Return the verdict on a webhook that is this server itself; none on others."""
    reason = own.reason(hook)
    return (Verdict(Stage.OWN, ok=False, reason=reason),) if reason else ()


def _kind_text(kind: GroupVersionKind | None) -> str:
    return "" if kind is None else f"{kind.api_version}, Kind={kind.kind}"


def _hook_notes(hook: Hook, attributes: Attributes, relevant: RelevantHook | None, *, silent: bool) -> list[str]:
    notes: list[str] = []
    if silent:
        notes.append(_SILENT_IGNORE if hook.fails_open else _SILENT_FAIL)
    if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
        notes.append("the request is a dry run, and it does not say that it supports one: the request is refused")
    if hook.endpoint is None:
        notes.append(hook.problem)
    if relevant is not None and relevant.invocation.resource != attributes.resource and hook.conditions:
        notes.append(
            "its matchConditions see request.kind in the matched version, but request.resource as it was asked for"
        )
    return notes


def _notes(target: Target, found: Mapping[Phase, Sequence[ExplainedHook]], max_webhooks: int) -> list[str]:
    notes: list[str] = []
    if target.ownership.cluster is None:
        notes.append(f"the request is refused: {target.ownership.problem}")
    for phase, hooks in found.items():
        if sum(one.decision == "call" for one in hooks) > max_webhooks:
            notes.append(
                f"the request is refused in the {phase} phase: more than {max_webhooks} webhooks are to be called, "
                "which is the limit (setting dispatch_request_webhooks)"
            )
    called = [one for one in found["mutating"] if one.decision == "call"]
    if len(called) > 1:
        notes.append("each mutating webhook after the first is matched against what those before it made")
    seconds = sum(one.timeout_seconds for one in called)
    if seconds > BUDGET_SECONDS:
        notes.append(
            f"the mutating webhooks may take {seconds:g} s, one after the other; an apiserver has {BUDGET_SECONDS:g} s"
        )
    return notes


async def _shadowed(dispatcher: Dispatcher, target: Target) -> tuple[str, ...]:
    attributes, owner = target.attributes, target.ownership.cluster
    if owner in (None, attributes.cluster):
        return ()
    return tuple(
        [
            f"{phase}: {one.hook.uid}"
            for phase in PHASES
            for one in await dispatcher.find_relevant(target, attributes.cluster, phase)
        ]
    )
