"""Finds the resources that share storage (upstream: EquivalentResourceMapper), and the rules that match one of them.

With ``matchPolicy: Equivalent``, a rule that names one version also matches requests for the others. The definition of
a custom resource lists its versions. For built-in resources, ``builtins.json`` lists them; ``schemas/builtins.py``
reads that table from an apiserver. Versions are in an apiserver's order of registration, as the first match counts.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import Index, Stored, StoreView
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Webhook
from fleethook.model.formats.text import suggestion
from fleethook.model.gvk import DEFINITION, GroupKind, GroupVersionKind, GroupVersionResource, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA
from fleethook.model.rule_matching import (
    EVERY,
    RuleAttributes,
    RuleWithOperations,
    matches_group,
    matches_operation,
    matches_resource,
    matches_rule,
    matches_scope,
)

SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")


def _index_resource(_cluster: str, definition: Stored) -> list[tuple[str, str]]:
    spec = as_object(definition.get("spec"))
    return [(as_text(spec.get("group")), as_text(as_object(spec.get("names")).get("plural")))]


DEFINITIONS_BY_RESOURCE: Final = Index("definitions_by_resource", DEFINITION, _index_resource)


class Equivalent(NamedTuple):
    """A resource in one version, and the kind of its objects."""

    resource: GroupVersionResource
    kind: GroupVersionKind | None
    """None if the kind is unknown."""


class _Storage(NamedTuple):
    """The resources that share one storage."""

    namespaced: bool | None
    equivalents: Mapping[str, tuple[Equivalent, ...]]
    """By subresource; ``""`` is the resource itself."""


def find_equivalents(
    store: StoreView,
    *,
    cluster: str,
    resource: GroupVersionResource,
    subresource: str,
    kind: GroupVersionKind,
    schema: tuple[str, str] | None = None,
) -> tuple[Equivalent, ...]:
    """Return the resources that share storage with a request's resource, in order of registration.

    The request's own resource is always included.

    Args:
        store: Indexed by `DEFINITIONS_BY_RESOURCE`.
        cluster: The logical cluster of the object.
        resource: The resource of the request.
        subresource: The subresource, ``""`` for none. Only versions with that subresource are equivalents.
        kind: The kind of the object in the review.
        schema: Cluster and name of the APIResourceSchema of a bound resource.
    """
    storage = _find_storage(store, cluster=cluster, group=resource.group, resource=resource.resource, schema=schema)
    equivalents = storage.equivalents.get(subresource, ()) if storage is not None else ()
    if any(equivalent.resource == resource for equivalent in equivalents):
        return equivalents
    return (*equivalents, Equivalent(resource, kind))


def is_namespaced(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None = None
) -> bool | None:
    """Return whether a resource is namespaced in any version, None if it is unknown."""
    storage = _find_storage(store, cluster=cluster, group=group, resource=resource, schema=schema)
    return None if storage is None else storage.namespaced


def has_subresource(
    store: StoreView,
    *,
    cluster: str,
    group: str,
    resource: str,
    subresource: str,
    schema: tuple[str, str] | None = None,
) -> bool | None:
    """Return whether a resource has a subresource in any version, None if the resource is unknown.

    The subresource ``""`` is the resource itself.
    """
    storage = _find_storage(store, cluster=cluster, group=group, resource=resource, schema=schema)
    return None if storage is None else subresource in storage.equivalents


def find_definition(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None = None
) -> JSONObject | None:
    """Return the definition of a custom resource in a cluster, None for others; arguments as for `find_equivalents`.

    The definition is a CustomResourceDefinition of the cluster, or the APIResourceSchema of a bound resource. Both have
    the same ``spec``.
    """
    if schema is not None:
        owner, name = schema
        found: JSONObject | None = store.get(owner, API_RESOURCE_SCHEMA, "", name)
        return found
    definitions = store.find(DEFINITIONS_BY_RESOURCE, cluster, (group, resource))
    return definitions[0] if definitions else None


def _find_storage(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None
) -> _Storage | None:
    definition = find_definition(store, cluster=cluster, group=group, resource=resource, schema=schema)
    if definition is not None:
        return _read_definition(definition)
    # A bound resource without a schema in the store is not a built-in resource.
    return _load_builtins().get((group, resource)) if schema is None else None


def _read_definition(definition: JSONObject) -> _Storage:
    # By identity: a store replaces definitions and never changes them, and an entry holds its definition.
    known = _STORAGES.get(id(definition))
    if known is None:
        if len(_STORAGES) >= _MAX_CACHED:
            _STORAGES.clear()
        spec = as_object(definition.get("spec"))
        scope = spec.get("scope")
        is_namespaced = scope == "Namespaced" if scope in ("Namespaced", "Cluster") else None
        known = _STORAGES[id(definition)] = definition, _Storage(is_namespaced, _list_versions(spec))
    return known[1]


_MAX_CACHED: Final = 1024
_STORAGES: Final[dict[int, tuple[JSONObject, _Storage]]] = {}


def _list_versions(spec: Mapping[str, JSON]) -> dict[str, tuple[Equivalent, ...]]:
    """Return the versions of a custom resource by subresource, in the order of its definition.

    Versions that are not served are included: an object is converted to them if a rule names no other version
    (apiextensions-apiserver: customresource_handler.go, getOrCreateServingInfoFor).
    """
    group, names = as_text(spec.get("group")), as_object(spec.get("names"))
    found: dict[str, list[Equivalent]] = {}
    for version in list_objects(spec.get("versions")):
        name = as_text(version.get("name"))
        if not name:
            continue
        resource = GroupVersionResource(group, name, as_text(names.get("plural")))
        kind = GroupVersionKind(group, name, as_text(names.get("kind")))
        subresources = as_object(version.get("subresources"))
        for subresource, its_kind in (("", kind), ("status", kind), ("scale", SCALE)):
            if not subresource or subresources.get(subresource) is not None:
                known = its_kind if its_kind.kind else None
                found.setdefault(subresource, []).append(Equivalent(resource, known))
    return {subresource: tuple(equivalents) for subresource, equivalents in found.items()}


def suggest_builtin(group: str, resource: str) -> str:
    """Return the end of a message that suggests a built-in resource for an unknown one, ``""`` if none is similar."""
    known = _load_builtins()
    elsewhere = sorted(one for one, name in known if name == resource)
    if elsewhere and group not in elsewhere:
        return f"; did you mean {resource} of {elsewhere[0] or 'the core group'}?"
    return suggestion(resource, [name for one, name in known if one == group and name != resource])


def is_builtin(group: str, resource: str) -> bool:
    """Return whether a resource is one of kube-apiserver's own, which has a Go type."""
    return (group, resource) in _load_builtins()


class _Builtin(msgspec.Struct, frozen=True):
    """A row of the table of built-in resources."""

    resource: str
    namespaced: bool
    served: dict[str, dict[str, str]]
    """Kinds by ``apiVersion`` and subresource; ``<apiVersion>/<kind>`` for a kind of another group or version."""


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_builtins: Final = msgspec.json.Decoder(list[_Builtin]).decode


def _serve(plural: str, kind: str) -> _Builtin:
    kinds = {"": kind, "status": kind}
    return _Builtin(plural, False, {f"{API_BINDING.group}/{version}": kinds for version in ("v1alpha1", "v1alpha2")})


_KCP: Final = (_serve("apibindings", API_BINDING.kind), _serve("apiexports", API_EXPORT.kind))
"""The resources that kcp serves in two versions, from definitions that only its administrator can read (kcp,
config/system-crds)."""


@functools.cache
def _load_builtins() -> Mapping[tuple[str, str], _Storage]:
    """Return the built-in resources of an apiserver, and some of kcp, by group and resource."""
    text = Path(__file__).with_name("builtins.json").read_bytes()
    return {
        (parse_api_version(api_version)[0], builtin.resource): storage
        for builtin in (*_decode_builtins(text), *_KCP)
        for storage in (_Storage(builtin.namespaced, _list_served(builtin)),)
        for api_version in builtin.served
    }


@functools.cache
def list_builtins(kind: GroupKind) -> tuple[tuple[str, Equivalent], ...]:
    """Return subresource and resource of each built-in resource and subresource that takes objects of a kind.

    Resources precede subresources with a kind of their own, such as Scale. A subresource with the kind of its resource,
    such as status, is not included.
    """
    found = [
        (subresource, equivalent)
        for (group, resource), storage in _load_builtins().items()
        for subresource, equivalents in storage.equivalents.items()
        for equivalent in equivalents
        if equivalent.kind is not None
        and GroupKind(equivalent.kind.group, equivalent.kind.kind) == kind
        # Groups that share a storage have one entry each.
        and (equivalent.resource.group, equivalent.resource.resource) == (group, resource)
        and (not subresource or equivalent.kind not in [own.kind for own in storage.equivalents.get("", ())])
    ]
    return tuple(sorted(found, key=lambda pair: bool(pair[0])))


def _list_served(builtin: _Builtin) -> dict[str, tuple[Equivalent, ...]]:
    found: dict[str, list[Equivalent]] = {}
    for api_version, kinds in builtin.served.items():
        resource = GroupVersionResource(*parse_api_version(api_version), builtin.resource)
        for subresource, text in kinds.items():
            other, _, kind = text.rpartition("/")
            known = GroupVersionKind(*parse_api_version(other or api_version), kind)
            found.setdefault(subresource, []).append(Equivalent(resource, known))
    return {subresource: tuple(equivalents) for subresource, equivalents in found.items()}


class WebhookInvocation(NamedTuple):
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

    def find_first(self, rule: RuleWithOperations, attributes: RuleAttributes) -> Equivalent | None:
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
        self, rule: RuleWithOperations, attributes: RuleAttributes, named: tuple[str, str], versions: Mapping[str, int]
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
    webhook: Webhook, attributes: RuleAttributes, kind: GroupVersionKind, equivalents: EquivalentIndex
) -> WebhookInvocation | None:
    """Return the invocation of a webhook, None if none of its rules matches the request.

    An exact match is preferred. With matchPolicy Equivalent, the first rule that matches an equivalent counts.
    """
    for number, rule in enumerate(webhook.rules):
        if matches_rule(rule, attributes):
            return WebhookInvocation(attributes.resource, attributes.subresource, kind, number)
    if not webhook.matches_equivalents:
        return None
    for number, rule in enumerate(webhook.rules):
        equivalent = equivalents.find_first(rule, attributes)
        if equivalent is not None:
            return WebhookInvocation(equivalent.resource, attributes.subresource, equivalent.kind, number)
    return None
