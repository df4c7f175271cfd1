"""Compares requests with the rules of webhooks (upstream: webhook/predicates/rules)."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.model.gvk import GroupVersionResource
from fleethook.model.json import JSON, list_objects, list_texts

EVERY: Final = "*"
# The namespace of a request for a Namespace is that Namespace's own name.
_NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class RuleWithOperations(NamedTuple):
    """One of ``rules``. A request matches if each list contains its value or ``*``."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource."""
    scope: str


def read_rules(webhook: Mapping[str, JSON]) -> tuple[RuleWithOperations, ...]:
    """Return the rules of a webhook in a configuration. Members of a wrong type are ignored."""
    return tuple(map(_read_rule, list_objects(webhook.get("rules"))))


def _read_rule(rule: Mapping[str, JSON]) -> RuleWithOperations:
    parts = (resource.partition("/") for resource in list_texts(rule.get("resources")))
    scope = rule.get("scope")
    return RuleWithOperations(
        operations=frozenset(list_texts(rule.get("operations"))),
        groups=frozenset(list_texts(rule.get("apiGroups"))),
        versions=frozenset(list_texts(rule.get("apiVersions"))),
        resources=tuple((resource, subresource) for resource, _, subresource in parts),
        scope=EVERY if scope is None else scope if isinstance(scope, str) else "",
    )


class RuleAttributes(NamedTuple):
    """The attributes of a request that rules match."""

    operation: str
    resource: GroupVersionResource
    subresource: str
    namespaced: bool
    """Whether the request has a namespace."""


class FieldMatch(NamedTuple):
    """One field of a rule, and whether the request matches it."""

    name: str
    ok: bool
    listed: tuple[str, ...]
    actual: str


def compare_fields(rule: RuleWithOperations, attributes: RuleAttributes) -> Iterator[FieldMatch]:
    """Compare a request with each field of a rule."""
    group, version, resource = attributes.resource
    path = f"{resource}/{attributes.subresource}" if attributes.subresource else resource
    scope = "Namespaced" if _is_namespaced(attributes) else "Cluster"
    yield FieldMatch("scope", matches_scope(rule, attributes), (rule.scope,), scope)
    yield FieldMatch(
        "operations", matches_operation(rule, attributes), tuple(sorted(rule.operations)), attributes.operation
    )
    yield FieldMatch("apiGroups", matches_group(rule, attributes), tuple(sorted(rule.groups)), group)
    yield FieldMatch("apiVersions", matches_version(rule, attributes), tuple(sorted(rule.versions)), version)
    names = tuple(f"{one}/{subresource}" if subresource else one for one, subresource in rule.resources)
    yield FieldMatch("resources", matches_resource(rule, attributes), names, path)


def matches_operation(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a rule has the operation of a request."""
    return attributes.operation in rule.operations or EVERY in rule.operations


def matches_group(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a rule has the API group of a request."""
    return attributes.resource.group in rule.groups or EVERY in rule.groups


def matches_version(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a rule has the version of a request."""
    return attributes.resource.version in rule.versions or EVERY in rule.versions


def matches_resource(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a rule has the resource and subresource of a request."""
    resource, path = attributes.resource.resource, attributes.subresource
    return any(one in (EVERY, resource) and subresource in (EVERY, path) for one, subresource in rule.resources)


def matches_scope(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a request has the scope of a rule. That of a Namespace is `Cluster`."""
    return rule.scope in (EVERY, "Namespaced" if _is_namespaced(attributes) else "Cluster")


def _is_namespaced(attributes: RuleAttributes) -> bool:
    return attributes.namespaced and attributes.resource != _NAMESPACES


def matches_rule(rule: RuleWithOperations, attributes: RuleAttributes) -> bool:
    """Return whether a request matches every field of a rule."""
    # The same as `compare_fields`, without building its results: thousands of broad rules are compared per request.
    return (
        matches_operation(rule, attributes)
        and matches_scope(rule, attributes)
        and matches_group(rule, attributes)
        and matches_version(rule, attributes)
        and matches_resource(rule, attributes)
    )
