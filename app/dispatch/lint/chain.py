"""Webhooks of one cluster and one phase together: asked twice, one after the other, before one another."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from app.dispatch.explain import BUDGET_SECONDS
from app.dispatch.hooks import EVERY, Hook, Rule
from app.dispatch.lint.codes import Issue
from app.model.json import JSON
from app.store import ObjectKey

_ORDER: Final = re.compile(r"(\d+|z{2,}|a{2,})[-.]")
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
# A longer one is the first to be lowered: it is more than what an apiserver waits if nothing is said.
_USUAL_SECONDS: Final = 10.0


class LintedHook(NamedTuple):
    """A webhook, compiled and as it is written."""

    hook: Hook
    webhook: Mapping[str, JSON]
    """With its defaults."""
    key: ObjectKey
    """Of its configuration."""


def duplicate_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the webhooks by which an endpoint is asked about a request that it has been asked about already."""
    told = set[str]()
    for first, second in combinations(chain, 2):
        if second.hook.uid not in told and _calls_twice(first, second):
            told.add(second.hook.uid)
            text = f"{first.hook.uid} has the same endpoint, and asks it about the same requests: remove one of the two"
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
        # Selectors that are nested so deep that they cannot be compared are none.
        return False


def _overlap(rule: Rule, other: Rule) -> bool:
    lists = (
        (rule.operations, other.operations),
        (rule.groups, other.groups),
        (rule.versions, other.versions),
        (frozenset({rule.scope}), frozenset({other.scope})),
    )
    return all(_meet(one, another) for one, another in lists) and any(
        _meet({resource}, {another}) and (sub == another_sub or EVERY in (sub, another_sub))
        for resource, sub in rule.resources
        for another, another_sub in other.resources
    )


def _meet(one: frozenset[str] | set[str], other: frozenset[str] | set[str]) -> bool:
    return bool(one & other) or (EVERY in one and bool(other)) or (EVERY in other and bool(one))


def budget_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the mutating webhooks whose time does not suffice, told at the last of them.

    Those that may be asked about the same request take their time one after the other.
    """
    told: dict[tuple[str, ...], tuple[LintedHook, str, list[str]]] = {}
    named = _by_resource(chain)
    for resource, about in named.items():
        # In the order of the chain, whether a rule names the resource or is about all.
        positions = sorted({*about, *named.get(EVERY, ())})
        candidates = [chain[position] for position in positions]
        for group, subresource in _paths(candidates, resource):
            asked = max((_asked(candidates, one, group, resource, subresource) for one in _OPERATIONS), key=_total)
            if _total(asked) > BUDGET_SECONDS:
                path = f"{resource}/{subresource}" if subresource else resource
                same = told.setdefault(tuple(one.hook.uid for one in asked), (asked[-1], _sum(asked), []))
                same[2].append(f"{path}.{group}" if group else path)
    for last, text, names in told.values():
        yield last, Issue("budget", f"about {', '.join(names)}, the mutating webhooks may take {text}")


def _asked(
    chain: Sequence[LintedHook], operation: str, group: str, resource: str, subresource: str
) -> list[LintedHook]:
    return [one for one in chain if one.hook.endpoint and _is_about(one.hook, operation, group, resource, subresource)]


def _total(asked: Sequence[LintedHook]) -> float:
    return sum(one.hook.seconds for one in asked)


def _sum(asked: Sequence[LintedHook]) -> str:
    each = ", ".join(f"{one.hook.uid} {one.hook.seconds:g} s" for one in asked)
    long = [one.hook.uid for one in asked if one.hook.seconds > _USUAL_SECONDS]
    first = f", that of {', '.join(long)} first" if long else ""
    taken = f"{_total(asked):g} s one after the other ({each})"
    return f"{taken}; an apiserver has {BUDGET_SECONDS:g} s: lower timeoutSeconds{first}"


def _by_resource(chain: Sequence[LintedHook]) -> dict[str, list[int]]:
    """Return the places of the webhooks that name a resource, by its plural or ``*``, sorted by that."""
    found: dict[str, list[int]] = {}
    for position, one in enumerate(chain):
        for resource in {resource for rule in one.hook.rules for resource, _ in rule.resources}:
            found.setdefault(resource, []).append(position)
    return dict(sorted(found.items()))


def _paths(chain: Sequence[LintedHook], plural: str) -> list[tuple[str, str]]:
    """Return the groups and subresources with which rules name a resource, wildcards among them."""
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


def _is_about(hook: Hook, operation: str, group: str, resource: str, subresource: str) -> bool:
    return any(
        rule.operations & {operation, EVERY}
        and rule.groups & {group, EVERY}
        and any(one in (resource, EVERY) and sub in (subresource, EVERY) for one, sub in rule.resources)
        for rule in hook.rules
    )


def order_findings(chain: Sequence[LintedHook]) -> Iterator[tuple[LintedHook, Issue]]:
    """Yield the mutating webhooks that are asked or not depending on what is asked before them."""
    for number, later in enumerate(chain):
        what = _depends_on_labels(later.hook)
        if not what:
            continue
        earlier = next((one for one in chain[:number] if _share(one.hook, later.hook)), None)
        if earlier is not None:
            text = (
                f"its {what} sees the labels as {earlier.hook.uid} leaves them: do not rely on those that the client "
                "sent, or on the order of the names"
            )
            yield later, Issue("order-labels", text)


def _share(one: Hook, other: Hook) -> bool:
    return any(_overlap(rule, another) for rule in one.rules for another in other.rules)


def _depends_on_labels(hook: Hook) -> str:
    if not hook.object_selector.everything and not hook.object_selector.problem:
        return "objectSelector"
    return "matchConditions" if any("object.metadata.labels" in one.expression for one in hook.conditions) else ""


def find_ordering_name(name: str) -> Issue | None:
    """Return that the name of a mutating configuration is made for its place among the others, None if it is not."""
    if not _ORDER.match(name):
        return None
    text = "it depends on the order of names, which the next one changes: make its webhooks independent of others"
    return Issue("order-name", text)
