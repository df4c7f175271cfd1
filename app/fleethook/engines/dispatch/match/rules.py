"""Finds the rule of a webhook that matches a request or an equivalent of it, and explains the nearest miss."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.dispatch.hooks.hooks import Hook
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.webhook_rules import (
    EVERY,
    FieldMatch,
    Rule,
    RuleAttributes,
    compare_fields,
    matches_group,
    matches_operation,
    matches_resource,
    matches_rule,
    matches_scope,
)
from fleethook.work.pausing import Pauses, Work, do_at_once


class Invocation(NamedTuple):
    """The resource, subresource and kind in which a webhook gets a request."""

    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind | None
    """None if the rule matches an equivalent resource of unknown kind."""
    rule: int
    """The index of the matching rule."""


class EquivalentIndex:
    """Indexes equivalents by group and resource, then by version: a definition may have thousands of versions."""

    def __init__(self, equivalents: Sequence[Equivalent]) -> None:
        """Index equivalents; earlier ones are preferred."""
        self._all: Final = equivalents
        self._positions: Final[dict[tuple[str, str], dict[str, int]]] = {}
        for position, equivalent in enumerate(equivalents):
            group, version, resource = equivalent.resource
            self._positions.setdefault((group, resource), {}).setdefault(version, position)

    def find_first(self, rule: Rule, attributes: RuleAttributes) -> Equivalent | None:
        """Return the first equivalent that a rule matches, except the resource of the request itself."""
        if not matches_operation(rule, attributes):
            return None
        positions = [
            position
            for (group, resource), versions in self._positions.items()
            if (position := self._find_first_version(rule, attributes, (group, resource), versions)) is not None
        ]
        return self._all[min(positions)] if positions else None

    def _find_first_version(
        self, rule: Rule, attributes: RuleAttributes, named: tuple[str, str], versions: Mapping[str, int]
    ) -> int | None:
        group, resource = named
        one = attributes._replace(resource=GroupVersionResource(group, "", resource))
        if not (matches_group(rule, one) and matches_resource(rule, one)):
            return None
        # The versions of a definition are in order of preference, so the first match is the result.
        listed = (
            versions.values()
            if EVERY in rule.versions
            else sorted(versions[version] for version in rule.versions if version in versions)
        )
        for position in listed:
            equivalent = self._all[position].resource
            if equivalent != attributes.resource and matches_scope(rule, attributes._replace(resource=equivalent)):
                return position
        return None


def find_invocation(
    hook: Hook, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: EquivalentIndex, pauses: Pauses
) -> Work[Invocation | None]:
    """Return the result of `match_rules`, with pauses between rules."""
    for number, rule in enumerate(hook.rules):
        if matches_rule(rule, attributes):
            return Invocation(attributes.resource, attributes.subresource, kind, number)
        if pauses.due(1 + len(rule.resources)):
            yield None
    if not hook.matches_equivalents:
        return None
    for number, rule in enumerate(hook.rules):
        equivalent = equivalents.find_first(rule, attributes)
        if equivalent is not None:
            return Invocation(equivalent.resource, attributes.subresource, equivalent.kind, number)
        if pauses.due(1 + len(rule.resources) + len(rule.versions)):
            yield None
    return None


def match_rules(
    hook: Hook, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: Sequence[Equivalent]
) -> Invocation | None:
    """Return the invocation of a webhook, None if none of its rules matches the request.

    An exact match is preferred. With matchPolicy Equivalent, the first rule that matches an equivalent counts.
    """
    return do_at_once(find_invocation(hook, attributes, kind, EquivalentIndex(equivalents), Pauses(sys.maxsize)))


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


def find_nearest_miss(hook: Hook, attributes: RuleAttributes, equivalents: EquivalentIndex) -> NearMiss | None:
    """Return the first rule with the fewest fields that do not match; None without rules, or if one of them matches."""
    nearest = min(_list_misses(hook, attributes, equivalents), key=lambda miss: len(miss.missed), default=None)
    return nearest if nearest is not None and nearest.missed else None


def _list_misses(hook: Hook, attributes: RuleAttributes, equivalents: EquivalentIndex) -> Iterator[NearMiss]:
    policy = () if hook.matches_equivalents else (FieldMatch("matchPolicy", False, ("Exact",), "Equivalent"),)
    for number, rule in enumerate(hook.rules):
        yield NearMiss(number, _list_missed(rule, attributes))
        # An equivalent is nearer only if the rule names it.
        open_rule = rule._replace(operations=frozenset({EVERY}), scope=EVERY)
        if (other := equivalents.find_first(open_rule, attributes)) is not None:
            missed = _list_missed(rule, attributes._replace(resource=other.resource))
            yield NearMiss(number, (*policy, *missed), other.resource)


def _list_missed(rule: Rule, attributes: RuleAttributes) -> tuple[FieldMatch, ...]:
    return tuple(axis for axis in compare_fields(rule, attributes) if not axis.ok)
