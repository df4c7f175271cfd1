"""Explains which webhooks a request is sent to, and why the others are skipped, with the functions of dispatch."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cel.check.null_reads import list_reads
from fleethook.cluster.store import Store
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.call.phases_and_warnings import MAX_CALLS
from fleethook.engines.dispatch.call.review_response_and_patch import ReviewError
from fleethook.engines.dispatch.call.webhook_call_and_audit import WITHOUT_EFFECTS, Audit, choose_review_version
from fleethook.engines.dispatch.dispatcher import Dispatcher, MatchedRequest
from fleethook.engines.dispatch.errors_and_deadline import BUDGET_SECONDS, Deadline, StatusError
from fleethook.engines.dispatch.match.equivalent_resources import (
    DEFINITIONS_BY_RESOURCE,
    EquivalentIndex,
    WebhookInvocation,
)
from fleethook.engines.dispatch.match.selectors_and_decision import (
    CallDecider,
    NamespaceLabels,
    RequestContext,
    Stage,
    Verdict,
    build_rule_attributes,
    check_filters,
    find_barrier,
    match_namespace,
    match_object,
)
from fleethook.engines.dispatch.request_from_manifest import InputRequest, find_refusal, is_review
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import OwnerStatus
from fleethook.engines.dispatch.webhooks.cluster_webhooks import RelevantWebhook
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import PHASES, Phase, Webhook
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.kcp import API_EXPORT, LOGICAL_CLUSTER, serves_without_binding
from fleethook.model.rule_matching import EVERY, FieldMatch, RuleAttributes, RuleWithOperations, compare_fields
from fleethook.work.threads_and_gc import run_work
from fleethook.workload_schema.admission_objects import may_be_set
from fleethook.workload_schema.custom_resource_schema import find_violation

# Webhooks that are explained before other requests get a turn: about 3 ms.
_EXPLAINED_AT_ONCE: Final = 25

Decision = Literal["call", "skip", "error", "unknown"]
"""``unknown`` if a condition depends on a member that kube-apiserver sets and the object of a manifest lacks."""


class Predicate(msgspec.Struct, frozen=True, rename="camel"):
    """The verdict of one filter."""

    stage: str
    ok: bool
    reason: str


class ExplainedWebhook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One webhook, and the decision about its call."""

    configuration: str
    webhook: str
    uid: str
    decision: Decision
    stage: str
    """The filter that decided, ``""`` if all match."""
    reason: str
    failure_policy: str
    timeout_seconds: float
    predicates: tuple[Predicate, ...]
    """The verdicts of all filters, including those after the decision."""
    nearest_miss: str = ""
    sent_as: str = ""
    notes: tuple[str, ...] = ()


class ExplainedOwner(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The owner of the schema."""

    case: str
    cluster: str | None
    trace: tuple[str, ...]
    problem: str = ""
    binding: str = ""
    export: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The explanation of a request."""

    cluster: str
    resource: str
    operation: str
    owner: ExplainedOwner
    mutating: tuple[ExplainedWebhook, ...]
    validating: tuple[ExplainedWebhook, ...]
    shadowed: tuple[str, ...] = ()
    """The webhooks of the consumer's own cluster that match, but are replaced by the owner's webhooks."""
    notes: tuple[str, ...] = ()
    refused: str = ""
    """Why the apiserver refuses the request before it asks the webhooks that are not listed, ``""`` if it does not."""


async def explain_input(
    dispatcher: Dispatcher, store: Store, planned: InputRequest, *, is_live: bool = False, as_provider: bool = False
) -> Explanation:
    """Explain a request of a command or a page, also the refusals of an apiserver before it asks webhooks.

    Args:
        dispatcher: Finds the webhooks.
        store: The objects.
        planned: The request.
        is_live: Whether the objects are all those of a cluster.
        as_provider: Whether they are those that a provider sees: of the consumers only the APIBindings.

    Raises:
        msgspec.DecodeError: An object of a review is not JSON.
        StatusError: An object of a review cannot be forwarded.
    """
    found = await explain(
        dispatcher,
        planned.request,
        validating=planned.validating,
        has_defaults=planned.has_defaults,
        cluster=planned.cluster,
        deadline=Deadline(time.monotonic() + BUDGET_SECONDS),
    )
    found = _refuse_invalid(_refuse(found, find_refusal(store, planned, is_live=is_live)), planned)
    return _correct_local(found, store, planned, as_provider=as_provider) if is_live else found


async def explain(
    dispatcher: Dispatcher,
    request: AdmissionRequest,
    *,
    validating: AdmissionRequest | None = None,
    has_defaults: bool | None = None,
    cluster: str,
    deadline: Deadline,
) -> Explanation:
    """Explain a request without calling admission webhooks.

    Args:
        dispatcher: Finds the webhooks.
        request: The request.
        validating: The request as validating webhooks get it, None for the same request.
        has_defaults: As in `fleethook.engines.dispatch.request_from_manifest.InputRequest`.
        cluster: The logical cluster of the request.
        deadline: The end of all checks.

    Raises:
        msgspec.DecodeError: An object of the review is not JSON.
        StatusError: An object of the review cannot be forwarded.
    """
    found: dict[Phase, tuple[ExplainedWebhook, ...]] = {}
    for phase in PHASES:
        shown = validating if validating is not None and phase == "validating" else request
        target = await run_work(dispatcher.find_target(shown, cluster=cluster, phase=phase))
        context = await dispatcher.build_context(target, deadline, Audit(), [])
        found[phase] = await _explain_phase(dispatcher, target, context, phase, has_defaults=has_defaults)
    attributes, ownership = target.attributes, target.ownership
    return Explanation(
        cluster=cluster,
        resource="/".join(part for part in (attributes.resource_name, attributes.subresource) if part),
        operation=attributes.operation,
        owner=ExplainedOwner(
            case=ownership.status,
            cluster=ownership.cluster,
            trace=ownership.trace,
            problem=ownership.problem,
            binding=ownership.binding,
            export=ownership.export,
        ),
        mutating=found["mutating"],
        validating=found["validating"],
        shadowed=await _find_shadowed(dispatcher, target),
        notes=tuple(_list_notes(target, found)),
    )


async def _explain_phase(
    dispatcher: Dispatcher, target: MatchedRequest, context: RequestContext, phase: Phase, *, has_defaults: bool | None
) -> tuple[ExplainedWebhook, ...]:
    """Explain the webhooks of one phase."""
    webhooks = await dispatcher.find_webhooks(target, phase)
    context = context._replace(namespace=await dispatcher.find_namespace(target.attributes, webhooks))
    relevant = {one.webhook.uid: one for one in target.relevant}
    equivalents = EquivalentIndex(target.equivalents)
    deciders = _Deciders(CallDecider(context), CallDecider(context), equivalents, has_defaults)
    found: list[ExplainedWebhook] = []
    for number, webhook in enumerate(webhooks, 1):
        found.append(await _explain_webhook(webhook, relevant.get(webhook.uid), target, deciders))
        if number % _EXPLAINED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return tuple(found)


class _Deciders(NamedTuple):
    """Two deciders: conditions that dispatch would not evaluate must not use the budget of those that it evaluates."""

    dispatched: CallDecider
    others: CallDecider
    equivalents: EquivalentIndex
    has_defaults: bool | None


async def _explain_webhook(
    webhook: Webhook, relevant: RelevantWebhook | None, target: MatchedRequest, deciders: _Deciders
) -> ExplainedWebhook:
    attributes, namespace = target.attributes, deciders.dispatched.namespace
    nearest = ""
    if relevant is None:
        answers = _explain_mismatch(webhook, target, namespace, deciders.equivalents)
        barrier: Verdict | None = answers[0]
        # Conditions are evaluated on the object as it is: the user may be about to change a rule.
        invocation = WebhookInvocation(attributes.resource, attributes.subresource, attributes.kind, -1)
        answers += (*await _evaluate(RelevantWebhook(webhook, invocation), attributes, deciders.others),)
        nearest = (
            "" if target.exempt else _describe_nearest_miss(webhook, attributes, answers[1:], deciders.equivalents)
        )
    else:
        rest = check_filters(relevant, attributes, namespace)
        answers = (_explain_match(relevant, attributes), *rest)
        decider = deciders.dispatched if find_barrier(rest) is None else deciders.others
        conditions = await _evaluate(relevant, attributes, decider)
        barrier = find_barrier(rest) or find_barrier(conditions)
        answers += conditions
    unset = _describe_unset(webhook, attributes, barrier, has_defaults=deciders.has_defaults)
    return ExplainedWebhook(
        configuration=webhook.configuration,
        webhook=webhook.name,
        uid=webhook.uid,
        decision="call" if barrier is None else "unknown" if unset else "skip" if barrier.error is None else "error",
        stage="" if barrier is None else barrier.stage,
        reason="all filters match" if barrier is None else unset or barrier.reason,
        failure_policy="Ignore" if webhook.fails_open else "Fail",
        timeout_seconds=webhook.seconds,
        predicates=tuple(Predicate(answer.stage, answer.ok, answer.reason) for answer in answers),
        nearest_miss=nearest,
        sent_as=_format_kind(relevant.invocation.kind) if relevant is not None else "",
        notes=tuple(_list_webhook_notes(webhook, attributes)) if barrier is None else (),
    )


def _describe_unset(
    webhook: Webhook, attributes: Attributes, barrier: Verdict | None, *, has_defaults: bool | None
) -> str:
    """Return which members kube-apiserver may set before it evaluates conditions without a result, ``""`` for none."""
    if has_defaults is None or barrier is None or barrier.stage != Stage.CONDITIONS:
        return ""
    objects = {"object": attributes.object, "oldObject": attributes.old_object}
    reads = {read for condition in webhook.conditions for read in list_reads(condition.expression)}
    members = {
        ".".join(read.path[1:])
        for read in reads
        # Only a member that the expression handles can be absent without an error.
        if (read.tested or barrier.error is not None)
        and isinstance(objects.get(read.path[0]), dict)
        and may_be_set(objects[read.path[0]], read.path[1:], has_defaults=has_defaults)
    }
    if not members:
        return ""
    names = " and ".join(sorted(members))
    if has_defaults:
        return f"kube-apiserver sets {names} before it asks: add it to the object"
    kind = attributes.kind.kind
    return (
        f"kube-apiserver may set {names} before it asks, and the input has no definition of {kind}: add it to the "
        f"object, give the definition of {kind}, or name a cluster"
    )


def _explain_match(relevant: RelevantWebhook, attributes: Attributes) -> Verdict:
    invocation = relevant.invocation
    rule = f"rules[{invocation.rule}]"
    if invocation.resource == attributes.resource:
        return Verdict(Stage.RULES, ok=True, reason=f"{rule} matches the request")
    return Verdict(Stage.RULES, ok=True, reason=f"{rule} matches {_format_equivalent(invocation.resource)}")


class NearMiss(NamedTuple):
    """The rule that comes closest to a request, and the fields that do not match."""

    rule: int
    missed: tuple[FieldMatch, ...]
    equivalent: GroupVersionResource | None = None
    """The equivalent resource that the rule would match, None for the resource of the request."""

    def __str__(self) -> str:
        other = f" {_format_equivalent(self.equivalent)}," if self.equivalent is not None else ""
        return f"rules[{self.rule}] would match{other} if {' and '.join(map(_describe_miss, self.missed))}"


def _format_equivalent(resource: GroupVersionResource) -> str:
    return f"{resource.group or 'core'}/{resource.version} {resource.resource}, an equivalent resource"


def _describe_miss(axis: FieldMatch) -> str:
    if axis.name == "scope":
        return f"its scope were {axis.actual!r} or '*' instead of {axis.listed[0]!r}"
    if axis.name == "matchPolicy":
        return "matchPolicy were Equivalent"
    text = f"{axis.actual!r} were in {axis.name} {list(axis.listed)}"
    if axis.name == "resources" and "/" in axis.actual and EVERY in axis.listed:
        return f"{text}, whose '*' includes no subresources"
    return text


def find_nearest_miss(webhook: Webhook, attributes: RuleAttributes, equivalents: EquivalentIndex) -> NearMiss | None:
    """Return the first rule with the fewest fields that do not match; None without rules, or if one of them matches."""
    nearest = min(_list_misses(webhook, attributes, equivalents), key=lambda miss: len(miss.missed), default=None)
    return nearest if nearest is not None and nearest.missed else None


def _list_misses(webhook: Webhook, attributes: RuleAttributes, equivalents: EquivalentIndex) -> Iterator[NearMiss]:
    policy = () if webhook.matches_equivalents else (FieldMatch("matchPolicy", False, ("Exact",), "Equivalent"),)
    for number, rule in enumerate(webhook.rules):
        yield NearMiss(number, _list_missed(rule, attributes))
        # An equivalent is nearer only if the rule names it.
        open_rule = rule._replace(operations=frozenset({EVERY}), scope=EVERY)
        if (other := equivalents.find_first(open_rule, attributes)) is not None:
            missed = _list_missed(rule, attributes._replace(resource=other.resource))
            yield NearMiss(number, (*policy, *missed), other.resource)


def _list_missed(rule: RuleWithOperations, attributes: RuleAttributes) -> tuple[FieldMatch, ...]:
    return tuple(axis for axis in compare_fields(rule, attributes) if not axis.ok)


def _describe_nearest_miss(
    webhook: Webhook, attributes: Attributes, answers: Sequence[Verdict], equivalents: EquivalentIndex
) -> str:
    """Return the smallest change after which the rules match, and the filters that would still prevent a call."""
    nearest = find_nearest_miss(webhook, build_rule_attributes(attributes), equivalents)
    if nearest is None:
        return ""
    # Conditions may have another result on the object in the version of an equivalent resource.
    known = [answer for answer in answers if nearest.equivalent is None or answer.stage != Stage.CONDITIONS]
    skipping = [one.stage for one in known if not one.ok and one.error is None]
    failing = [one.stage for one in known if one.error is not None]
    if not skipping and not failing:
        return str(nearest)
    return f"{nearest}, but then {' and '.join(skipping or failing)} would {'skip it' if skipping else 'fail'}"


def _explain_mismatch(
    webhook: Webhook, target: MatchedRequest, namespace: NamespaceLabels, equivalents: EquivalentIndex
) -> tuple[Verdict, ...]:
    attributes = target.attributes
    if target.exempt:
        reason = f"webhooks are never called for a {attributes.kind.kind}"
    elif not webhook.rules:
        reason = "it has no rules"
    else:
        known = build_rule_attributes(attributes)
        is_equivalent = any(equivalents.find_first(rule, known) is not None for rule in webhook.rules)
        also = "; matchPolicy is Exact" if is_equivalent else ""
        reason = f"no rule matches {attributes.operation} of {_format_path(attributes)}{also}"
    return (
        Verdict(Stage.RULES, ok=False, reason=reason),
        match_namespace(webhook, attributes, namespace),
        match_object(webhook, attributes),
    )


def _format_path(attributes: Attributes) -> str:
    group, version, resource = attributes.resource
    path = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    # A request for a Namespace has the Namespace's own name as namespace, but rules treat it as cluster-scoped.
    has_namespace = attributes.namespace and not attributes.is_namespace
    scope = f"namespace {attributes.namespace}" if has_namespace else "no namespace"
    return f"{group or 'core'}/{version} {path} in {scope}"


async def _evaluate(relevant: RelevantWebhook, attributes: Attributes, decider: CallDecider) -> tuple[Verdict, ...]:
    if not relevant.webhook.conditions or relevant.invocation.kind is None:
        return ()
    try:
        return (
            await decider.evaluate_conditions(relevant.webhook, await decider.build_versioned(relevant, attributes)),
        )
    except StatusError as error:
        return (Verdict(Stage.CONDITIONS, ok=False, reason=str(error), error=error),)


def _format_kind(kind: GroupVersionKind | None) -> str:
    return "" if kind is None else f"{kind.api_version}, Kind={kind.kind}"


def _list_webhook_notes(webhook: Webhook, attributes: Attributes) -> list[str]:
    notes: list[str] = []
    if attributes.dry_run and webhook.side_effects not in WITHOUT_EFFECTS:
        notes.append("it does not support dry runs (sideEffects), so the dry run is refused")
    if webhook.endpoint is None:
        notes.append(webhook.problem)
    try:
        version = choose_review_version(webhook.review_versions)
    except ReviewError as error:
        notes.append(f"the call fails: {error}")
    else:
        notes += [f"it gets an AdmissionReview of {version}"] if version != "v1" else []
    return notes


def _list_notes(target: MatchedRequest, found: Mapping[Phase, Sequence[ExplainedWebhook]]) -> list[str]:
    notes: list[str] = []
    if target.ownership.cluster is None:
        unseen = target.ownership.status is OwnerStatus.UNSEEN
        notes.append(f"{'this is no answer' if unseen else 'the request is refused'}: {target.ownership.problem}")
    for phase, webhooks in found.items():
        if sum(webhook.decision == "call" for webhook in webhooks) > MAX_CALLS:
            notes.append(
                f"the request is refused in the {phase} phase: it matches more than {MAX_CALLS} webhooks, the limit "
                "of one request"
            )
    seconds = sum(one.timeout_seconds for one in found["mutating"] if one.decision == "call")
    if seconds > BUDGET_SECONDS:
        notes.append(
            f"the mutating webhooks may take {seconds:g} s in sequence; an apiserver waits {BUDGET_SECONDS:g} s"
        )
    return notes


async def _find_shadowed(dispatcher: Dispatcher, target: MatchedRequest) -> tuple[str, ...]:
    attributes, owner = target.attributes, target.ownership.cluster
    if owner in (None, attributes.cluster):
        return ()
    return tuple(
        [
            f"{phase}: {one.webhook.uid}"
            for phase in PHASES
            for one in await run_work(dispatcher.find_relevant(target, attributes.cluster, phase))
        ]
    )


def _refuse(found: Explanation, reason: str) -> Explanation:
    """Return an explanation without webhooks if there is a reason to refuse the request."""
    notes = (f"the request is refused: {reason}",)
    empty = msgspec.structs.replace(found, mutating=(), validating=(), shadowed=(), notes=notes, refused=reason)
    return empty if reason else found


def _correct_local(found: Explanation, store: Store, planned: InputRequest, *, as_provider: bool) -> Explanation:
    """Return an explanation without webhooks if a kcp serves no such resource, or the user cannot see its webhooks.

    Args:
        found: The explanation.
        store: The objects of a cluster.
        planned: The request.
        as_provider: Whether the objects are those that a provider sees: of the consumers only the APIBindings.
    """
    cluster, group, plural = planned.cluster, planned.request.resource.group, planned.request.resource.resource
    if found.owner.case != OwnerStatus.LOCAL or not (as_provider or store.has(LOGICAL_CLUSTER)):
        return found
    is_served = serves_without_binding(group, plural) or store.find(DEFINITIONS_BY_RESOURCE, cluster, (group, plural))
    if as_provider and not (is_served and any(key.cluster == cluster for key in store.keys(API_EXPORT))):
        problem = f"the webhooks of {cluster} itself cannot be seen with --kcp-export: use its kubeconfig, or --kcp"
        owner = msgspec.structs.replace(found.owner, case=OwnerStatus.UNSEEN, cluster=None, problem=problem)
        notes = (f"this is no answer: {problem}",)
        return msgspec.structs.replace(found, owner=owner, mutating=(), validating=(), shadowed=(), notes=notes)
    if is_served or is_review(planned.source.document):
        return found
    named = f"{plural}.{group}" if group else plural
    return _refuse(found, f"{cluster} does not serve {named}: no CustomResourceDefinition or APIBinding defines it")


def _refuse_invalid(found: Explanation, planned: InputRequest) -> Explanation:
    """Return an explanation without validating webhooks if the schema of a custom resource refuses its object."""
    request, version = planned.validating, planned.version
    if version is None or request.operation not in ("CREATE", "UPDATE") or found.refused:
        return found
    reason = find_violation(request.object, version.schema, request.old_object)
    changing = "" if all(one.decision == "skip" for one in found.mutating) else " unless a mutating webhook corrects it"
    text = f"the apiserver refuses the object by its schema{changing}, and calls no validating webhook: {reason}"
    invalid = msgspec.structs.replace(found, validating=(), notes=(*found.notes, text), refused=reason)
    return invalid if reason else found
