"""Matches the rules of a webhook, and explains the nearest miss (upstream: webhook/predicates/rules)."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from app.control.slices import Pauses
from app.control.turns import Work, do_at_once
from app.dispatch.equivalent_resources import Equivalent
from app.dispatch.hooks import EVERY, Hook, Rule
from app.model.gvk import GroupVersionKind, GroupVersionResource

# The namespace of a request for a Namespace is that Namespace's own name.
_NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class RuleAttributes(NamedTuple):
    """The attributes of a request that rules match."""

    operation: str
    resource: GroupVersionResource
    subresource: str
    namespaced: bool
    """Whether the request has a namespace."""


class Invocation(NamedTuple):
    """The resource, subresource and kind in which a webhook gets a request."""

    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind | None
    """None if the rule matches an equivalent resource of unknown kind."""
    rule: int
    """The index of the matching rule."""


class FieldMatch(NamedTuple):
    """One field of a rule, and whether the request matches it."""

    name: str
    ok: bool
    listed: tuple[str, ...]
    asked: str


def compare_fields(rule: Rule, asked: RuleAttributes) -> Iterator[FieldMatch]:
    """Compare a request with each field of a rule."""
    group, version, resource = asked.resource
    path = f"{resource}/{asked.subresource}" if asked.subresource else resource
    scope = "Namespaced" if asked.namespaced else "Cluster"
    yield FieldMatch("scope", _matches_scope(rule, asked), (rule.scope,), scope)
    yield FieldMatch("operations", _matches_operation(rule, asked), tuple(sorted(rule.operations)), asked.operation)
    yield FieldMatch("apiGroups", _matches_group(rule, asked), tuple(sorted(rule.groups)), group)
    yield FieldMatch("apiVersions", _matches_version(rule, asked), tuple(sorted(rule.versions)), version)
    names = tuple(f"{one}/{subresource}" if subresource else one for one, subresource in rule.resources)
    yield FieldMatch("resources", _matches_resource(rule, asked), names, path)


def _matches_operation(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.operation in rule.operations or EVERY in rule.operations


def _matches_group(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.resource.group in rule.groups or EVERY in rule.groups


def _matches_version(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.resource.version in rule.versions or EVERY in rule.versions


def _matches_resource(rule: Rule, asked: RuleAttributes) -> bool:
    resource, path = asked.resource.resource, asked.subresource
    return any(one in (EVERY, resource) and subresource in (EVERY, path) for one, subresource in rule.resources)


def _matches_scope(rule: Rule, asked: RuleAttributes) -> bool:
    scope = rule.scope
    if scope == "Namespaced":
        return asked.namespaced and asked.resource != _NAMESPACES
    if scope == "Cluster":
        return not asked.namespaced or asked.resource == _NAMESPACES
    return scope == EVERY


def matches_rule(rule: Rule, asked: RuleAttributes) -> bool:
    """Return whether a request matches every field of a rule."""
    # The same as `compare_fields`, without building its results: thousands of broad rules are compared per request.
    return (
        _matches_operation(rule, asked)
        and _matches_scope(rule, asked)
        and _matches_group(rule, asked)
        and _matches_version(rule, asked)
        and _matches_resource(rule, asked)
    )


class EquivalentIndex:
    """Indexes equivalents by group and resource, then by version: a definition may have thousands of versions."""

    def __init__(self, equivalents: Sequence[Equivalent]) -> None:
        """Index equivalents; earlier ones are preferred."""
        self._all: Final = equivalents
        self._positions: Final[dict[tuple[str, str], dict[str, int]]] = {}
        for position, equivalent in enumerate(equivalents):
            group, version, resource = equivalent.resource
            self._positions.setdefault((group, resource), {}).setdefault(version, position)

    def first(self, rule: Rule, asked: RuleAttributes) -> Equivalent | None:
        """Return the first equivalent that a rule matches, except the resource of the request itself."""
        if not _matches_operation(rule, asked):
            return None
        positions = [
            position
            for (group, resource), versions in self._positions.items()
            if (position := self._first_version(rule, asked, (group, resource), versions)) is not None
        ]
        return self._all[min(positions)] if positions else None

    def _first_version(
        self, rule: Rule, asked: RuleAttributes, named: tuple[str, str], versions: Mapping[str, int]
    ) -> int | None:
        group, resource = named
        one = asked._replace(resource=GroupVersionResource(group, "", resource))
        if not (_matches_group(rule, one) and _matches_resource(rule, one)):
            return None
        # The versions of a definition are in order of preference, so the first match is the result.
        listed = (
            versions.values()
            if EVERY in rule.versions
            else sorted(versions[version] for version in rule.versions if version in versions)
        )
        for position in listed:
            equivalent = self._all[position].resource
            if equivalent != asked.resource and _matches_scope(rule, asked._replace(resource=equivalent)):
                return position
        return None


def find_invocation(
    hook: Hook, asked: RuleAttributes, kind: GroupVersionKind, equivalents: EquivalentIndex, pauses: Pauses
) -> Work[Invocation | None]:
    """Return the result of `match_rules`, with pauses between rules."""
    for number, rule in enumerate(hook.rules):
        if matches_rule(rule, asked):
            return Invocation(asked.resource, asked.subresource, kind, number)
        if pauses.due(1 + len(rule.resources)):
            yield None
    if not hook.equivalent:
        return None
    for number, rule in enumerate(hook.rules):
        equivalent = equivalents.first(rule, asked)
        if equivalent is not None:
            return Invocation(equivalent.resource, asked.subresource, equivalent.kind, number)
        if pauses.due(1 + len(rule.resources) + len(rule.versions)):
            yield None
    return None


def match_rules(
    hook: Hook, asked: RuleAttributes, kind: GroupVersionKind, equivalents: Sequence[Equivalent]
) -> Invocation | None:
    """Return the invocation of a webhook, None if none of its rules matches the request.

    An exact match is preferred. With matchPolicy Equivalent, the first rule that matches an equivalent counts.
    """
    return do_at_once(find_invocation(hook, asked, kind, EquivalentIndex(equivalents), Pauses(sys.maxsize)))


class NearMiss(NamedTuple):
    """The rule that comes closest to a request, and the fields that do not match."""

    rule: int
    missed: tuple[FieldMatch, ...]

    def __str__(self) -> str:
        wanted = (f"{axis.asked!r} were in {axis.name} {list(axis.listed)}" for axis in self.missed)
        return f"rules[{self.rule}] would match if {' and '.join(wanted)}"


def find_nearest_miss(hook: Hook, asked: RuleAttributes) -> NearMiss | None:
    """Return the first rule with the fewest fields that do not match, None without rules."""
    misses = [
        NearMiss(number, tuple(axis for axis in compare_fields(rule, asked) if not axis.ok))
        for number, rule in enumerate(hook.rules)
    ]
    return min(misses, key=lambda miss: len(miss.missed), default=None)
