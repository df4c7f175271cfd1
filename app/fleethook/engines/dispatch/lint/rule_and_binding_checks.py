"""Lints the webhook configurations, their rules and the APIBindings of a fleet, each alone and those of a cluster."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from fleethook.cluster.registration.rule_webhooks_and_outage import EXPRESSION_ANNOTATION
from fleethook.cluster.store import ObjectKey, Store, StoreView
from fleethook.engines.dispatch.lint.configuration_validation import (
    CODES,
    Issue,
    WebhookFinding,
    configuration_problems,
)
from fleethook.engines.dispatch.lint.lockout_certificate_condition_checks import call_findings, condition_errors
from fleethook.engines.dispatch.match.equivalent_resources import find_equivalents, is_namespaced, suggest_builtin
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import (
    BINDINGS_BY_RESOURCE,
    UNBOUND_BINDINGS,
    Ownership,
    OwnerStatus,
    find_owner,
)
from fleethook.engines.dispatch.webhooks.cluster_webhooks import explain_excess
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import (
    GROUP,
    PHASES,
    Phase,
    Webhook,
    compile_webhooks,
    set_defaults,
)
from fleethook.model.formats.field_errors import subdomain_problems
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import (
    JSON,
    JSONObject,
    as_list,
    as_object,
    as_text,
    enumerate_objects,
    list_objects,
    list_texts,
)
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, is_system
from fleethook.model.rule_matching import EVERY, RuleWithOperations
from fleethook.outbound.certificate_trust import bundle_problems, list_skipped

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
        schemas = [one.get("schema") for one in list_objects(spec.get("resources"))]
        for name in list_texts([*schemas, *as_list(spec.get("latestResourceSchemas"))]):
            if name.partition(".")[2] == wanted:
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
        store: Indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
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
        known = {equivalent.resource.version for equivalent in equivalents if equivalent.resource != asked}
        if (EVERY in versions and known) or known & versions:
            return True
        if schema is not None and store.get(schema[0], API_RESOURCE_SCHEMA, "", schema[1]) is None:
            # The resource is bound or exported, but its versions are unknown.
            return True
    owner = find_owner(store, cluster=cluster, group=group, resource=plural, as_kcp=True)
    return bool(owner.binding) and owner.schema is None


def rule_findings(webhook: Webhook, store: StoreView) -> Iterator[Issue]:
    """Yield the rules of a webhook that cannot match."""
    if not webhook.rules:
        yield Issue("never-called", "it has no rules, so it is never called: add rules, or remove it")
    for number, rule in enumerate(webhook.rules):
        place = f"rules[{number}]"
        if rule.groups == {GROUP}:
            text = f"{place}: webhooks are never called for resources of {GROUP}: remove the rule"
            yield Issue("never-called", text)
            continue
        yield from _lint_scope(webhook, rule, place, store)
        yield from _lint_resources(webhook, rule, place, store)
        yield from _lint_owner(webhook, rule, place, store)


def _list_named(rule: RuleWithOperations) -> list[tuple[str, str]]:
    """Return the groups and resources that a rule names, an empty list if it has a wildcard."""
    if EVERY in rule.groups or any(resource == EVERY for resource, _ in rule.resources):
        return []
    resources = dict.fromkeys(resource for resource, _ in rule.resources)
    return [(group, resource) for resource in resources for group in sorted(rule.groups)]


def _lint_scope(webhook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    if rule.scope not in ("Namespaced", "Cluster"):
        return
    scopes: dict[str, set[bool]] = {}
    for group, resource in _list_named(rule):
        # A group without the resource does not count, if another group has it.
        found = find_scopes(store, cluster=webhook.cluster, group=group, resource=resource)
        scopes[resource] = scopes.get(resource, set()) | found
    if scopes and all(found == {rule.scope == "Cluster"} for found in scopes.values()):
        other = "Cluster" if rule.scope == "Namespaced" else "Namespaced"
        resources = ", ".join(scopes)
        text = f"{place} never matches: its scope is {rule.scope}, that of {resources} is {other}: set {other} or *"
        yield Issue("never-called", text)


def _lint_resources(webhook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    if EVERY in rule.groups or not rule.groups:
        return
    for resource in rule.resources:
        if resource[0] == EVERY or any(
            serves(store, cluster=webhook.cluster, group=group, resource=resource, versions=rule.versions)
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


def _lint_owner(webhook: Webhook, rule: RuleWithOperations, place: str, store: StoreView) -> Iterator[Issue]:
    for group, resource in _list_named(rule):
        owner = find_owner(store, cluster=webhook.cluster, group=group, resource=resource)
        provider = owner.cluster or ("its provider" if owner.status is OwnerStatus.UNSEEN and owner.binding else None)
        if provider in (None, webhook.cluster):
            continue
        if any(find_exported_schemas(store, cluster=webhook.cluster, group=group, resource=resource)):
            # Consumers of this cluster's export send their objects to this webhook.
            continue
        named = f"{resource}.{group}" if group else resource
        yield Issue(
            "shadowed",
            f"{place}: APIBinding {owner.binding} binds {named} of {provider}, whose webhooks are called "
            f"instead: register the webhook in {owner.cluster or 'the workspace of the provider'}",
        )


_VERSION: Final = re.compile(r"\*|[a-z]([-a-z0-9]*[a-z0-9])?")
_RESOURCE: Final = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def configuration_warnings(configuration: JSONObject) -> Iterator[str]:
    """Yield likely mistakes in a configuration that an apiserver accepts, each with its field."""
    for index, members in enumerate_objects(configuration.get("webhooks")):
        field = f"webhooks[{index}]"
        bundle = as_object(members.get("clientConfig")).get("caBundle")
        for problem in bundle_problems(bundle, f"{field}.clientConfig.caBundle"):
            yield f"{problem.field}: every call will fail: {problem.text}"
        for text in list_skipped(bundle):
            yield f"{field}.clientConfig.caBundle: {text}; it is not used, and the others are"
        for position, rule in enumerate_objects(members.get("rules")):
            yield from _rule_warnings(rule, f"{field}.rules[{position}]")


def _rule_warnings(rule: JSON, field: str) -> Iterator[str]:
    groups, versions = list_texts(rule.get("apiGroups")), list_texts(rule.get("apiVersions"))
    resources = list_texts(rule.get("resources"))
    if groups and not any(_is_group(group) for group in groups):
        hint = ' (the group of pods is "")' if "core" in groups else ""
        yield f"{field}.apiGroups: the rule never matches: no API group is spelled like this{hint}"
    if versions and not any(_VERSION.fullmatch(version) for version in versions):
        yield f"{field}.apiVersions: the rule never matches: no API version is spelled like this"
    if resources and not any(_RESOURCE.fullmatch(resource.partition("/")[0]) for resource in resources):
        yield f"{field}.resources: the rule never matches: resources are plurals in lower case"


def _is_group(group: str) -> bool:
    # A group of "core" would be a name without a dot, which only an aggregated API could have.
    return group in ("", EVERY) or (group != "core" and not list(subdomain_problems(group)))


class LintedWebhook(NamedTuple):
    """A compiled webhook with its source."""

    webhook: Webhook
    document: Mapping[str, JSON]
    """The webhook in its configuration, with defaults."""
    key: ObjectKey
    """The key of its configuration."""
    rule_expression: str = ""
    """The expression of an admission rule in Python, ``""`` for other webhooks."""


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
            yield key, Issue("binding-incomplete", text)
        for group, resource in cast("Iterable[tuple[str, str]]", BINDINGS_BY_RESOURCE.keys(key.cluster, binding)):
            bound = (key.cluster, group, resource)
            owner = find_owner(store, cluster=key.cluster, group=group, resource=resource)
            if owner.status in _ACTIONS and (owner.status is not OwnerStatus.AMBIGUOUS or bound not in reported):
                reported.add(bound)
                code = "binding-incomplete" if owner.status is OwnerStatus.DANGLING else "binding-owner"
                yield key, Issue(code, _format_text(owner))


def _format_text(owner: Ownership) -> str:
    trace = "; ".join(step for step in owner.trace if step != owner.problem)
    return f"{owner.problem}{_ACTIONS[owner.status]}{f' ({trace})' if trace else ''}"


_NOWHERE: Final[Mapping[ObjectKey, str]] = {}


def lint(
    store: Store, *, places: Mapping[ObjectKey, str] = _NOWHERE, now: datetime | None = None
) -> list[WebhookFinding]:
    """Return all findings, sorted by cluster, kind and name of the object.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner_and_cluster_paths.INDEXES`.
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
    chain: list[LintedWebhook] = []
    for key in sorted(keys, key=lambda key: key.name.encode()):
        configuration = set_defaults(dict(as_object(store.get(*key))))
        yield from ((key, "", issue) for issue in _lint_configuration(key, configuration))
        chain += _compile(phase, key, configuration)
    for linted_webhook in chain:
        webhook, document, key, rule_expression = linted_webhook
        each = (
            rule_findings(webhook, store),
            condition_errors(webhook, rule_expression),
            call_findings(webhook, document, store, now=now),
        )
        yield from ((key, webhook.name, finding) for findings in each for finding in findings)
    if chain and (text := explain_excess([linted_webhook.webhook for linted_webhook in chain])):
        yield chain[-1].key, "", Issue("too-many-webhooks", f"its cluster has too many {phase} webhooks: {text}")


def _compile(phase: Phase, key: ObjectKey, configuration: JSONObject) -> Iterator[LintedWebhook]:
    annotations = as_object(as_object(configuration.get("metadata")).get("annotations"))
    expression = as_text(annotations.get(EXPRESSION_ANNOTATION))
    documents = list_objects(configuration.get("webhooks"))
    for webhook, document in zip(compile_webhooks(phase, key.cluster, configuration), documents, strict=True):
        yield LintedWebhook(webhook, document, key, expression)


def _lint_configuration(key: ObjectKey, configuration: JSONObject) -> Iterator[Issue]:
    """Yield the issues of a configuration, and the errors and warnings of an apiserver."""
    if is_system(key.cluster):
        yield Issue("never-called", f"kcp ignores the webhooks of {key.cluster}: register them in another cluster")
    problems = list(configuration_problems(key.group_kind.kind, configuration))
    yield from (Issue("invalid", f"{problem.field}: {problem.text}") for problem in problems)
    # An apiserver warns about objects that it accepts.
    refused = tuple(f"{problem.field}: " for problem in problems)
    yield from (
        Issue("suspicious", text) for text in configuration_warnings(configuration) if not text.startswith(refused)
    )
