"""Lints the webhook configurations and the APIBindings of a fleet, each alone and all of a cluster together."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import Final, NamedTuple, cast

from fleethook.cel import compile_condition
from fleethook.cluster.registration.rule_webhooks import DECISION_ANNOTATION, EXPRESSION_ANNOTATION
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.dispatch.configuration_review import configuration_warnings
from fleethook.engines.dispatch.configuration_validation import configuration_problems
from fleethook.engines.dispatch.explain import BUDGET_SECONDS
from fleethook.engines.dispatch.hooks.hooks import PHASES, Hook, Phase, compile_hooks, set_defaults
from fleethook.engines.dispatch.lint.calls import call_findings
from fleethook.engines.dispatch.lint.codes import CODES, Issue, WebhookFinding
from fleethook.engines.dispatch.lint.condition_errors import condition_errors
from fleethook.engines.dispatch.lint.filters import filter_findings
from fleethook.engines.dispatch.lint.rule_checks import rule_findings
from fleethook.engines.dispatch.schema_owner import (
    BINDINGS_BY_RESOURCE,
    UNBOUND_BINDINGS,
    Ownership,
    OwnerStatus,
    find_owner,
)
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects
from fleethook.model.kcp import API_BINDING, is_system
from fleethook.model.webhook_rules import EVERY, Rule

_ORDER: Final = re.compile(r"(\d+|z{2,}|a{2,})[-.]")
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
# The default of timeoutSeconds. The remedy names the webhooks with a longer one.
_DEFAULT_SECONDS: Final = 10.0


class LintedHook(NamedTuple):
    """A compiled webhook with its source."""

    hook: Hook
    webhook: Mapping[str, JSON]
    """The webhook in its configuration, with defaults."""
    key: ObjectKey
    """The key of its configuration."""
    decision: str = ""
    """The same text for admission rules in Python that decide the same, ``""`` for other webhooks."""
    rule_expression: str = ""
    """The expression of an admission rule in Python, ``""`` for other webhooks."""


def duplicate_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the webhooks that do the same as an earlier webhook for the same requests."""
    reported = set[str]()
    for first, second in combinations(chain, 2):
        if second.hook.uid not in reported and _calls_twice(first, second):
            reported.add(second.hook.uid)
            same = "decides the same about" if second.decision else "calls the same endpoint for"
            text = f"{first.hook.uid} {same} the same requests: remove one of the two"
            yield second, Issue("duplicate-call", text)


def _calls_twice(first: LintedHook, second: LintedHook) -> bool:
    one, other = first.hook, second.hook
    same = first.decision == second.decision and (bool(first.decision) or one.endpoint == other.endpoint)
    if one.endpoint is None or not same or one.conditions != other.conditions:
        return False
    if not any(_overlap(rule, another) for rule in one.rules for another in other.rules):
        return False
    try:
        members = ("namespaceSelector", "objectSelector")
        return all(first.webhook.get(member) == second.webhook.get(member) for member in members)
    except RecursionError:
        # Selectors that are nested too deeply for a comparison are invalid.
        return False


def _overlap(rule: Rule, other: Rule) -> bool:
    lists = (
        (rule.operations, other.operations),
        (rule.groups, other.groups),
        (rule.versions, other.versions),
        (frozenset({rule.scope}), frozenset({other.scope})),
    )
    return all(_intersect(one, another) for one, another in lists) and any(
        _intersect({resource}, {another}) and (sub == another_sub or EVERY in (sub, another_sub))
        for resource, sub in rule.resources
        for another, another_sub in other.resources
    )


def _intersect(one: frozenset[str] | set[str], other: frozenset[str] | set[str]) -> bool:
    return bool(one & other) or (EVERY in one and bool(other)) or (EVERY in other and bool(one))


def budget_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the last of the mutating webhooks whose timeouts together exceed an apiserver's budget.

    Webhooks that match the same request are called one after the other.
    """
    exceeded: dict[tuple[str, ...], tuple[LintedHook, str, list[str]]] = {}
    named = _index_by_resource(chain)
    for resource, about in named.items():
        # In the order of the chain: webhooks that name the resource, and webhooks for all resources.
        positions = sorted({*about, *named.get(EVERY, ())})
        candidates = [chain[position] for position in positions]
        for group, subresource in _list_paths(candidates, resource):
            called = max((_find_called(candidates, one, group, resource, subresource) for one in _OPERATIONS), key=_sum)
            if _sum(called) > BUDGET_SECONDS:
                path = f"{resource}/{subresource}" if subresource else resource
                uids = tuple(one.hook.uid for one in called)
                same = exceeded.setdefault(uids, (called[-1], _describe_sum(called), []))
                same[2].append(f"{path}.{group}" if group else path)
    for last, text, names in exceeded.values():
        yield last, Issue("budget", f"for {', '.join(names)}, the mutating webhooks may take {text}")


def _find_called(
    chain: Sequence[LintedHook], operation: str, group: str, resource: str, subresource: str
) -> list[LintedHook]:
    return [one for one in chain if one.hook.endpoint and _matches(one.hook, operation, group, resource, subresource)]


def _sum(called: Sequence[LintedHook]) -> float:
    return sum(one.hook.seconds for one in called)


def _describe_sum(called: Sequence[LintedHook]) -> str:
    each = ", ".join(f"{one.hook.uid} {one.hook.seconds:g} s" for one in called)
    long = [one.hook.uid for one in called if one.hook.seconds > _DEFAULT_SECONDS]
    first = f", that of {', '.join(long)} first" if long else ""
    taken = f"{_sum(called):g} s in sequence ({each})"
    return f"{taken}; an apiserver waits {BUDGET_SECONDS:g} s: lower timeoutSeconds{first}"


def _index_by_resource(chain: Sequence[LintedHook]) -> dict[str, list[int]]:
    """Return the positions of the webhooks that name a resource, by its plural or ``*``, sorted by that."""
    found: dict[str, list[int]] = {}
    for position, one in enumerate(chain):
        for resource in {resource for rule in one.hook.rules for resource, _ in rule.resources}:
            found.setdefault(resource, []).append(position)
    return dict(sorted(found.items()))


def _list_paths(chain: Sequence[LintedHook], plural: str) -> list[tuple[str, str]]:
    """Return the groups and subresources in rules that name a resource, including wildcards."""
    return sorted(
        {
            (group, subresource)
            for one in chain
            for rule in one.hook.rules
            for resource, subresource in rule.resources
            if resource == plural
            for group in rule.groups
        }
    )


def _matches(hook: Hook, operation: str, group: str, resource: str, subresource: str) -> bool:
    return any(
        rule.operations & {operation, EVERY}
        and rule.groups & {group, EVERY}
        and any(one in (resource, EVERY) and sub in (subresource, EVERY) for one, sub in rule.resources)
        for rule in hook.rules
    )


def order_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the mutating webhooks whose filters depend on the changes of earlier webhooks."""
    for number, later in enumerate(chain):
        field = _find_label_filter(later.hook)
        if not field:
            continue
        # Webhooks of one URL are one program, which knows its own changes: an installation of fleethook has such pairs.
        earlier = next(
            (
                one
                for one in chain[:number]
                if one.hook.endpoint != later.hook.endpoint and _match_same(one.hook, later.hook)
            ),
            None,
        )
        if earlier is not None:
            text = (
                f"its {field} matches the labels after {earlier.hook.uid}: do not rely on the labels that the client "
                "sent, or on the order of the names"
            )
            yield later, Issue("order-labels", text)


def _match_same(one: Hook, other: Hook) -> bool:
    return any(_overlap(rule, another) for rule in one.rules for another in other.rules)


def _find_label_filter(hook: Hook) -> str:
    if not hook.object_selector.selects_everything and not hook.object_selector.problem:
        return "objectSelector"
    return "matchConditions" if any("object.metadata.labels" in one.expression for one in hook.conditions) else ""


def find_ordering_name(name: str) -> Issue | None:
    """Return an issue if the name of a mutating configuration is chosen for its order, None otherwise."""
    if not _ORDER.match(name):
        return None
    text = "its name is chosen for its order, which a new configuration can change: make its webhooks independent"
    return Issue("order-name", text)


_ACTIONS: Final = {
    OwnerStatus.AMBIGUOUS: "",
    OwnerStatus.NAMELESS: ": wait until kcp sets it, or recreate the APIBinding",
    OwnerStatus.UNKNOWN: ": add the objects of that cluster",
    OwnerStatus.DANGLING: ": restore the APIExport, or remove the APIBinding",
}


def binding_findings(store: Store) -> Iterator[tuple[ObjectKey, Issue]]:
    """Yield the issues of the APIBindings of all clusters, with the functions of dispatch."""
    reported = set[tuple[str, str, str]]()
    for key in sorted(store.keys(API_BINDING)):
        binding = as_object(store.get(*key))
        if UNBOUND_BINDINGS.keys(key.cluster, binding):
            phase = as_object(binding.get("status")).get("phase") or "no phase"
            text = f"nothing is bound yet ({phase}): requests for its resources are refused until they are bound"
            yield key, Issue("binding-unbound", text)
        for group, resource in cast("Iterable[tuple[str, str]]", BINDINGS_BY_RESOURCE.keys(key.cluster, binding)):
            bound = (key.cluster, group, resource)
            owner = find_owner(store, cluster=key.cluster, group=group, resource=resource)
            if owner.status in _ACTIONS and (owner.status is not OwnerStatus.AMBIGUOUS or bound not in reported):
                reported.add(bound)
                yield key, Issue(f"binding-{owner.status}", _format_text(owner))


def _format_text(owner: Ownership) -> str:
    trace = "; ".join(step for step in owner.trace if step != owner.problem)
    return f"{owner.problem}{_ACTIONS[owner.status]}{f' ({trace})' if trace else ''}"


_NOWHERE: Final[Mapping[ObjectKey, str]] = {}


def lint(
    store: Store, *, places: Mapping[ObjectKey, str] = _NOWHERE, now: datetime | None = None
) -> list[WebhookFinding]:
    """Return all findings, sorted by cluster, kind and name of the object.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner.INDEXES`.
        places: File and line of objects.
        now: The time that decides about expired certificates, by default the current one.
    """
    found: list[tuple[ObjectKey, str, Issue]] = []
    now = now or datetime.now(UTC)
    for phase in PHASES:
        for cluster in sorted({key.cluster for key in store.keys(PHASES[phase])}):
            found += _lint_cluster(store, cluster, phase, now=now)
    found += ((key, "", one) for key, one in binding_findings(store))
    found.sort(key=lambda one: one[0])
    return [
        WebhookFinding(
            level=CODES[code],
            code=code,
            cluster=key.cluster,
            kind=key.group_kind.kind,
            configuration=key.name,
            webhook=webhook,
            text=text,
            place=places.get(key, ""),
        )
        for key, webhook, (code, text) in found
    ]


def _lint_cluster(store: Store, cluster: str, phase: Phase, *, now: datetime) -> Iterator[tuple[ObjectKey, str, Issue]]:
    keys = [key for key in store.keys(PHASES[phase]) if key.cluster == cluster]
    chain: list[LintedHook] = []
    for key in sorted(keys, key=lambda key: key.name.encode()):
        configuration = set_defaults(dict(as_object(store.get(*key))))
        yield from ((key, "", one) for one in _lint_configuration(phase, key, configuration))
        chain += _compile(phase, key, configuration)
    for one in chain:
        hook, webhook, key, _, rule_expression = one
        each = (
            rule_findings(hook, store),
            filter_findings(hook, webhook, store),
            condition_errors(hook, rule_expression),
            call_findings(hook, webhook, store, now=now),
        )
        yield from ((key, hook.name, finding) for findings in each for finding in findings)
    together = [duplicate_findings(chain)]
    if phase == "mutating":
        together += [budget_findings(chain), order_findings(chain)]
    yield from ((one.key, one.hook.name, finding) for findings in together for one, finding in findings)


def _compile(phase: Phase, key: ObjectKey, configuration: JSONObject) -> Iterator[LintedHook]:
    webhooks = configuration.get("webhooks")
    annotations = as_object(as_object(configuration.get("metadata")).get("annotations"))
    decision, expression = (as_text(annotations.get(one)) for one in (DECISION_ANNOTATION, EXPRESSION_ANNOTATION))
    written = list_objects(webhooks)
    for hook, webhook in zip(compile_hooks(phase, key.cluster, configuration), written, strict=True):
        yield LintedHook(hook, webhook, key, decision, expression)


def _lint_configuration(phase: Phase, key: ObjectKey, configuration: JSONObject) -> Iterator[Issue]:
    """Yield the issues of a configuration, and the errors and warnings of an apiserver."""
    if is_system(key.cluster):
        yield Issue("system-cluster", f"kcp ignores the webhooks of {key.cluster}: register them in another cluster")
    problems = list(configuration_problems(key.group_kind.kind, configuration, compile_expression=compile_condition))
    yield from (Issue("invalid", f"{one.field}: {one.text}") for one in problems)
    # An apiserver warns about objects that it accepts.
    refused = tuple(f"{one.field}: " for one in problems)
    yield from (
        Issue("suspicious", text) for text in configuration_warnings(configuration) if not text.startswith(refused)
    )
    order = find_ordering_name(key.name) if phase == "mutating" else None
    if order is not None:
        yield order
