"""Lints the webhooks of one cluster and phase together: duplicate calls, the sum of timeouts, the order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.engines.dispatch.explain import BUDGET_SECONDS
from fleethook.engines.dispatch.hooks.hooks import EVERY, Hook, Rule
from fleethook.engines.dispatch.lint.codes import Issue
from fleethook.model.json import JSON

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


def duplicate_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the webhooks that call an endpoint which an earlier webhook calls for the same requests."""
    reported = set[str]()
    for first, second in combinations(chain, 2):
        if second.hook.uid not in reported and _calls_twice(first, second):
            reported.add(second.hook.uid)
            text = f"{first.hook.uid} calls the same endpoint for the same requests: remove one of the two"
            yield second, Issue("duplicate-call", text)


def _calls_twice(first: LintedHook, second: LintedHook) -> bool:
    one, other = first.hook, second.hook
    if one.endpoint is None or one.endpoint != other.endpoint or one.conditions != other.conditions:
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
