"""Matches the rules of a webhook, and explains the nearest miss (upstream: webhook/predicates/rules)."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.dispatch.hooks.hooks import EVERY, Hook, Rule
from fleethook.engines.dispatch.match.equivalent_resources import Equivalent
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.work.pausing import Pauses, Work, do_at_once

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
    actual: str


def compare_fields(rule: Rule, attributes: RuleAttributes) -> Iterator[FieldMatch]:
    """Compare a request with each field of a rule."""
    group, version, resource = attributes.resource
    path = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    scope = "Namespaced" if _is_namespaced(attributes) else "Cluster"
    yield FieldMatch("scope", _matches_scope(rule, attributes), (rule.scope,), scope)
    yield FieldMatch(
        "operations", _matches_operation(rule, attributes), tuple(sorted(rule.operations)), attributes.operation
    )
    yield FieldMatch("apiGroups", _matches_group(rule, attributes), tuple(sorted(rule.groups)), group)
    yield FieldMatch("apiVersions", _matches_version(rule, attributes), tuple(sorted(rule.versions)), version)
    names = tuple(f"{one}/{subresource}" if subresource else one for one, subresource in rule.resources)
    yield FieldMatch("resources", _matches_resource(rule, attributes), names, path)


def _matches_operation(rule: Rule, attributes: RuleAttributes) -> bool:
    return attributes.operation in rule.operations or EVERY in rule.operations


def _matches_group(rule: Rule, attributes: RuleAttributes) -> bool:
    return attributes.resource.group in rule.groups or EVERY in rule.groups


def _matches_version(rule: Rule, attributes: RuleAttributes) -> bool:
    return attributes.resource.version in rule.versions or EVERY in rule.versions


def _matches_resource(rule: Rule, attributes: RuleAttributes) -> bool:
    resource, path = attributes.resource.resource, attributes.subresource
    return any(one in (EVERY, resource) and subresource in (EVERY, path) for one, subresource in rule.resources)


def _matches_scope(rule: Rule, attributes: RuleAttributes) -> bool:
    return rule.scope in (EVERY, "Namespaced" if _is_namespaced(attributes) else "Cluster")


def _is_namespaced(attributes: RuleAttributes) -> bool:
    return attributes.namespaced and attributes.resource != _NAMESPACES


def matches_rule(rule: Rule, attributes: RuleAttributes) -> bool:
    """Return whether a request matches every field of a rule."""
    # The same as `compare_fields`, without building its results: thousands of broad rules are compared per request.
    return (
        _matches_operation(rule, attributes)
        and _matches_scope(rule, attributes)
        and _matches_group(rule, attributes)
        and _matches_version(rule, attributes)
        and _matches_resource(rule, attributes)
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

    def find_first(self, rule: Rule, attributes: RuleAttributes) -> Equivalent | None:
        """Return the first equivalent that a rule matches, except the resource of the request itself."""
        if not _matches_operation(rule, attributes):
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
            if equivalent != attributes.resource and _matches_scope(rule, attributes._replace(resource=equivalent)):
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
