"""Whether a webhook's rules are about a request, and what is nearest where none is (research 2.4, 2.5)."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from app.control.slices import Pauses
from app.control.turns import Work, do_at_once
from app.dispatch.equivalent_resources import Equivalent
from app.dispatch.hooks import EVERY, Hook, Rule
from app.model.gvk import GroupVersionKind, GroupVersionResource

# A request about a Namespace carries that Namespace's own name as its namespace.
_NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class RuleAttributes(NamedTuple):
    """What of a request rules are about."""

    operation: str
    resource: GroupVersionResource
    subresource: str
    namespaced: bool
    """Whether the request names a namespace."""


class Invocation(NamedTuple):
    """That a webhook is to be asked, and as what it sees the object."""

    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind | None
    """None where the rule is about an equivalent of which no kind is known."""
    rule: int
    """The rule that matched."""


class FieldMatch(NamedTuple):
    """One list of a rule, and whether the request is in it."""

    name: str
    ok: bool
    listed: tuple[str, ...]
    asked: str


def compare_fields(rule: Rule, asked: RuleAttributes) -> Iterator[FieldMatch]:
    """Yield how a request stands to each list of a rule."""
    group, version, resource = asked.resource
    path = f"{resource}/{asked.subresource}" if asked.subresource else resource
    scope = "Namespaced" if asked.namespaced else "Cluster"
    yield FieldMatch("scope", _in_scope(rule, asked), (rule.scope,), scope)
    yield FieldMatch("operations", _in_operations(rule, asked), tuple(sorted(rule.operations)), asked.operation)
    yield FieldMatch("apiGroups", _in_groups(rule, asked), tuple(sorted(rule.groups)), group)
    yield FieldMatch("apiVersions", _in_versions(rule, asked), tuple(sorted(rule.versions)), version)
    names = tuple(f"{one}/{subresource}" if subresource else one for one, subresource in rule.resources)
    yield FieldMatch("resources", _in_resources(rule, asked), names, path)


def _in_operations(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.operation in rule.operations or EVERY in rule.operations


def _in_groups(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.resource.group in rule.groups or EVERY in rule.groups


def _in_versions(rule: Rule, asked: RuleAttributes) -> bool:
    return asked.resource.version in rule.versions or EVERY in rule.versions


def _in_resources(rule: Rule, asked: RuleAttributes) -> bool:
    resource, path = asked.resource.resource, asked.subresource
    return any(one in (EVERY, resource) and subresource in (EVERY, path) for one, subresource in rule.resources)


def _in_scope(rule: Rule, asked: RuleAttributes) -> bool:
    scope = rule.scope
    if scope == "Namespaced":
        return asked.namespaced and asked.resource != _NAMESPACES
    if scope == "Cluster":
        return not asked.namespaced or asked.resource == _NAMESPACES
    return scope == EVERY


def matches_rule(rule: Rule, asked: RuleAttributes) -> bool:
    """Return whether a request is in every list of a rule."""
    # What `compare_fields` says, without saying it: broad rules are looked at by the thousand.
    return (
        _in_operations(rule, asked)
        and _in_scope(rule, asked)
        and _in_groups(rule, asked)
        and _in_versions(rule, asked)
        and _in_resources(rule, asked)
    )


class EquivalentIndex:
    """Equivalents by group and resource, then by version: a definition may have thousands of versions."""

    def __init__(self, equivalents: Sequence[Equivalent]) -> None:
        """Prepare; the order of the equivalents is that of their preference."""
        self._all: Final = equivalents
        self._places: Final[dict[tuple[str, str], dict[str, int]]] = {}
        for place, equivalent in enumerate(equivalents):
            group, version, resource = equivalent.resource
            self._places.setdefault((group, resource), {}).setdefault(version, place)

    def first(self, rule: Rule, asked: RuleAttributes) -> Equivalent | None:
        """Return the first equivalent that a rule is about, other than the resource of the request itself."""
        if not _in_operations(rule, asked):
            return None
        places = [
            place
            for (group, resource), versions in self._places.items()
            if (place := self._first_version(rule, asked, (group, resource), versions)) is not None
        ]
        return self._all[min(places)] if places else None

    def _first_version(
        self, rule: Rule, asked: RuleAttributes, named: tuple[str, str], versions: Mapping[str, int]
    ) -> int | None:
        group, resource = named
        one = asked._replace(resource=GroupVersionResource(group, "", resource))
        if not (_in_groups(rule, one) and _in_resources(rule, one)):
            return None
        # The versions of a definition are in the order of their places, so the first that fits is the one.
        listed = (
            versions.values()
            if EVERY in rule.versions
            else sorted(versions[version] for version in rule.versions if version in versions)
        )
        for place in listed:
            equivalent = self._all[place].resource
            if equivalent != asked.resource and _in_scope(rule, asked._replace(resource=equivalent)):
                return place
        return None


def find_invocation(
    hook: Hook, asked: RuleAttributes, kind: GroupVersionKind, equivalents: EquivalentIndex, pauses: Pauses
) -> Work[Invocation | None]:
    """Return what `match_rules` returns, with pauses between rules."""
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
    """Return how a webhook is to be asked, None if no rule of it is about the request.

    An exact match is preferred; after it, where the policy allows that, the first rule that names an equivalent.
    """
    return do_at_once(find_invocation(hook, asked, kind, EquivalentIndex(equivalents), Pauses(sys.maxsize)))


class NearMiss(NamedTuple):
    """The rule that comes closest to a request, and what keeps it from matching."""

    rule: int
    missed: tuple[FieldMatch, ...]

    def __str__(self) -> str:
        wishes = (f"{axis.asked!r} were in {axis.name} {list(axis.listed)}" for axis in self.missed)
        return f"rules[{self.rule}] would match if {' and '.join(wishes)}"


def find_nearest_miss(hook: Hook, asked: RuleAttributes) -> NearMiss | None:
    """Return the rule with the fewest lists that a request is not in; the first of them, None without rules."""
    misses = [
        NearMiss(number, tuple(axis for axis in compare_fields(rule, asked) if not axis.ok))
        for number, rule in enumerate(hook.rules)
    ]
    return min(misses, key=lambda miss: len(miss.missed), default=None)
