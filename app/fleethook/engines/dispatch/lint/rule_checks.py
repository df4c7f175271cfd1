"""Finds rules that no request matches, by the resources that a logical cluster serves as far as the store knows."""

from collections.abc import Iterator
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.lint.configuration_validation import Issue
from fleethook.engines.dispatch.match.equivalent_resources import (
    find_equivalents,
    is_namespaced,
    suggest_builtin,
)
from fleethook.engines.dispatch.schema_owner import OwnerStatus, find_owner
from fleethook.engines.dispatch.webhooks.webhook import GROUP, Webhook
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import as_object
from fleethook.model.kcp import API_EXPORT, API_RESOURCE_SCHEMA
from fleethook.model.webhook_rules import EVERY, RuleWithOperations

# kcp serves its own types in each cluster. Their schemas are not in manifests.
_KCP: Final = ".kcp.io"

_Schema = tuple[str, str] | None


def find_exported_schemas(store: StoreView, *, cluster: str, group: str, resource: str) -> Iterator[tuple[str, str]]:
    """Yield cluster and name of the APIResourceSchemas with which a cluster exports a resource.

    In either version of an APIExport, the name of a schema is a prefix, the plural and the group.
    """
    wanted = f"{resource}.{group or 'core'}"
    for export in store.each(cluster, API_EXPORT):
        spec = as_object(export.get("spec"))
        resources, names = spec.get("resources"), spec.get("latestResourceSchemas")
        schemas = [as_object(one).get("schema") for one in resources] if isinstance(resources, list) else []
        for name in (*schemas, *(names if isinstance(names, list) else ())):
            if isinstance(name, str) and name.partition(".")[2] == wanted:
                yield cluster, name


def _list_schemas(store: StoreView, cluster: str, group: str, resource: str) -> Iterator[_Schema]:
    """Yield the schemas of a resource that a cluster binds or exports; None is a local or built-in definition."""
    yield find_owner(store, cluster=cluster, group=group, resource=resource, as_kcp=True).schema
    yield from find_exported_schemas(store, cluster=cluster, group=group, resource=resource)


def find_scopes(store: StoreView, *, cluster: str, group: str, resource: str) -> set[bool]:
    """Return whether a resource is namespaced: an empty set if unknown, two values if definitions differ."""
    found = (
        is_namespaced(store, cluster=cluster, group=group, resource=resource, schema=schema)
        for schema in _list_schemas(store, cluster, group, resource)
    )
    return {one for one in found if one is not None}


def serves(store: StoreView, *, cluster: str, group: str, resource: tuple[str, str], versions: frozenset[str]) -> bool:
    """Return whether a cluster may serve a resource in one of the versions.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner.INDEXES`.
        cluster: The logical cluster.
        group: The API group, not ``*``.
        resource: Plural and subresource; the subresource may be ``*``.
        versions: The versions; ``*`` matches any.
    """
    plural, subresource = resource
    if group.endswith(_KCP):
        return True
    asked = GroupVersionResource(group, "", plural)
    for schema in _list_schemas(store, cluster, group, plural):
        equivalents = find_equivalents(
            store,
            cluster=cluster,
            resource=asked,
            subresource="" if subresource == EVERY else subresource,
            kind=GroupVersionKind(group, "", ""),
            schema=schema,
        )
        known = {one.resource.version for one in equivalents if one.resource != asked}
        if (EVERY in versions and known) or known & versions:
            return True
        if schema is not None and store.get(schema[0], API_RESOURCE_SCHEMA, "", schema[1]) is None:
            # The resource is bound or exported, but its versions are unknown.
            return True
    owner = find_owner(store, cluster=cluster, group=group, resource=plural, as_kcp=True)
    return bool(owner.binding) and owner.schema is None


def rule_findings(hook: Webhook, store: StoreView) -> Iterator[Issue]:
    """Yield the rules of a webhook that cannot match."""
    if not hook.rules:
        yield Issue("never-called", "it has no rules, so it is never called: add rules, or remove it")
    for number, rule in enumerate(hook.rules):
        place = f"rules[{number}]"
        if rule.groups == {GROUP}:
            text = f"{place}: webhooks are never called for resources of {GROUP}: remove the rule"
            yield Issue("never-called", text)
            continue
        yield from _lint_scope(hook, rule, place, store)
        yield from _lint_resources(hook, rule, place, store)
        yield from _lint_owner(hook, rule, place, store)


def _list_named(rule: RuleWithOperations) -> list[tuple[str, str]]:
    """Return the groups and resources that a rule names, an empty list if it has a wildcard."""
    if EVERY in rule.groups or any(resource == EVERY for resource, _ in rule.resources):
        return []
    resources = dict.fromkeys(resource for resource, _ in rule.resources)
    return [(group, resource) for resource in resources for group in sorted(rule.groups)]


def _lint_scope(hook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    if rule.scope not in ("Namespaced", "Cluster"):
        return
    scopes: dict[str, set[bool]] = {}
    for group, resource in _list_named(rule):
        # A group without the resource does not count, if another group has it.
        found = find_scopes(store, cluster=hook.cluster, group=group, resource=resource)
        scopes[resource] = scopes.get(resource, set()) | found
    if scopes and all(found == {rule.scope == "Cluster"} for found in scopes.values()):
        other = "Cluster" if rule.scope == "Namespaced" else "Namespaced"
        resources = ", ".join(scopes)
        text = f"{place} never matches: its scope is {rule.scope}, that of {resources} is {other}: set {other} or *"
        yield Issue("never-called", text)


def _lint_resources(hook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    if EVERY in rule.groups or not rule.groups:
        return
    for resource in rule.resources:
        if resource[0] == EVERY or any(
            serves(store, cluster=hook.cluster, group=group, resource=resource, versions=rule.versions)
            for group in rule.groups
        ):
            continue
        path = "/".join(part for part in resource if part)
        groups = ", ".join(sorted(group or "the core group" for group in rule.groups))
        versions = ", ".join(sorted(rule.versions))
        yield Issue(
            "unserved-resource",
            f"{place}: no definition, export or built-in type has {path} of {groups} in {versions}: "
            "correct the spelling or the version, or add its definition"
            + suggest_builtin(min(rule.groups), resource[0]),
        )


def _lint_owner(hook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    for group, resource in _list_named(rule):
        owner = find_owner(store, cluster=hook.cluster, group=group, resource=resource)
        provider = owner.cluster or ("its provider" if owner.status is OwnerStatus.UNSEEN and owner.binding else None)
        if provider in (None, hook.cluster):
            continue
        if any(find_exported_schemas(store, cluster=hook.cluster, group=group, resource=resource)):
            # Consumers of this cluster's export send their objects to this webhook.
            continue
        named = f"{resource}.{group}" if group else resource
        yield Issue(
            "shadowed",
            f"{place}: APIBinding {owner.binding} binds {named} of {provider}, whose webhooks are called "
            f"instead: register the webhook in {owner.cluster or 'the workspace of the provider'}",
        )
