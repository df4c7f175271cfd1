"""Which resources are the same storage, for ``matchPolicy: Equivalent`` (research 2.5).

A rule that names one version of a resource is also good for requests of its other versions. What the versions are is
said by the definition of a custom resource, and for built-in resources by a table that is read from an apiserver
(``schemas/builtins.py``). They come in the order in which an apiserver registers them, since its first match counts.
"""

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Final, NamedTuple

import msgspec

from app.model.gvk import GroupKind, GroupVersionKind, GroupVersionResource, parse_api_version
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import API_RESOURCE_SCHEMA
from app.store import Index, Stored, StoreView

DEFINITION: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")

SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")

# Definitions that requests are about at a time, rather than all that a fleet has; the rest is computed again.
_REMEMBERED: Final = 1024


def _resources_of(_cluster: str, definition: Stored) -> list[tuple[str, str]]:
    spec = as_object(definition.get("spec"))
    return [(_text(spec.get("group")), _text(as_object(spec.get("names")).get("plural")))]


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


DEFINITIONS_BY_RESOURCE: Final = Index("definitions_by_resource", DEFINITION, _resources_of)


class Equivalent(NamedTuple):
    """A resource in one version, and what kind its objects are."""

    resource: GroupVersionResource
    kind: GroupVersionKind | None
    """None where it is not known."""


class _Storage(NamedTuple):
    """What is served from one place in storage."""

    namespaced: bool | None
    equivalents: Mapping[str, tuple[Equivalent, ...]]
    """By subresource; ``""`` is the resource itself."""


class _Same:
    """A definition as the key of a cache: itself, not what is equal to it.

    Definitions in a store are replaced, never changed, so the same one says the same. It is held by its key, so its
    identity cannot become that of another one while it is remembered.
    """

    __slots__ = ("definition",)

    def __init__(self, definition: JSONObject) -> None:
        self.definition: Final = definition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.definition is self.definition

    def __hash__(self) -> int:
        return id(self.definition)


def find_equivalents(
    store: StoreView,
    *,
    cluster: str,
    resource: GroupVersionResource,
    subresource: str,
    kind: GroupVersionKind,
    schema: tuple[str, str] | None = None,
) -> tuple[Equivalent, ...]:
    """Return every resource that is the same storage as that of a request, in the order of registration.

    The request's own resource is always among them; where nothing is known of it, it is the only one.

    Args:
        store: Indexed by `DEFINITIONS_BY_RESOURCE`.
        cluster: The logical cluster of the object.
        resource: That the request is about.
        subresource: ``""`` for none; only versions that have it too are equivalents.
        kind: What the review says that the object is.
        schema: Cluster and name of the APIResourceSchema, for a resource that is bound.
    """
    storage = _storage_of(store, cluster=cluster, group=resource.group, resource=resource.resource, schema=schema)
    found = storage.equivalents.get(subresource, ()) if storage is not None else ()
    if any(one.resource == resource for one in found):
        return found
    return (*found, Equivalent(resource, kind))


def is_namespaced(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None = None
) -> bool | None:
    """Return whether objects of a resource are in namespaces, None if nothing is known of it, whatever its version."""
    storage = _storage_of(store, cluster=cluster, group=group, resource=resource, schema=schema)
    return None if storage is None else storage.namespaced


def find_definition(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None = None
) -> JSONObject | None:
    """Return what defines a custom resource as a cluster sees it, None for others; as `find_equivalents`.

    It is a CustomResourceDefinition of the cluster, or the APIResourceSchema of a bound resource, whose ``spec`` reads
    the same.
    """
    if schema is not None:
        owner, name = schema
        found: JSONObject | None = store.get(owner, API_RESOURCE_SCHEMA, "", name)
        return found
    definitions = store.find(DEFINITIONS_BY_RESOURCE, cluster, (group, resource))
    return definitions[0] if definitions else None


def _storage_of(
    store: StoreView, *, cluster: str, group: str, resource: str, schema: tuple[str, str] | None
) -> _Storage | None:
    definition = find_definition(store, cluster=cluster, group=group, resource=resource, schema=schema)
    if definition is not None:
        return _defined(_Same(definition))
    # A bound resource whose schema is not there is still no built-in one.
    return _builtins().get((group, resource)) if schema is None else None


@functools.lru_cache(maxsize=_REMEMBERED)
def _defined(same: _Same) -> _Storage:
    spec = as_object(same.definition.get("spec"))
    scope = spec.get("scope")
    return _Storage(
        namespaced=scope == "Namespaced" if scope in ("Namespaced", "Cluster") else None,
        equivalents=_versions_of(spec),
    )


def _versions_of(spec: Mapping[str, JSON]) -> dict[str, tuple[Equivalent, ...]]:
    """Return the versions of a custom resource by subresource, in its own order.

    Versions that are not served are registered too, and an object is converted to them if a rule names no other
    (apiextensions-apiserver: customresource_handler.go, getOrCreateServingInfoFor).
    """
    group, names = _text(spec.get("group")), as_object(spec.get("names"))
    found: dict[str, list[Equivalent]] = {}
    versions = spec.get("versions")
    for version in map(as_object, versions if isinstance(versions, list) else ()):
        name = _text(version.get("name"))
        if not name:
            continue
        resource = GroupVersionResource(group, name, _text(names.get("plural")))
        kind = GroupVersionKind(group, name, _text(names.get("kind")))
        subresources = as_object(version.get("subresources"))
        for subresource, its_kind in (("", kind), ("status", kind), ("scale", SCALE)):
            if not subresource or subresources.get(subresource) is not None:
                known = its_kind if its_kind.kind else None
                found.setdefault(subresource, []).append(Equivalent(resource, known))
    return {subresource: tuple(equivalents) for subresource, equivalents in found.items()}


class _Builtin(msgspec.Struct, frozen=True):
    """A line of the table of built-in resources."""

    resource: str
    namespaced: bool
    served: dict[str, dict[str, str]]
    """Kinds by subresource, by ``apiVersion``; a kind of another group or version is ``<apiVersion>/<kind>``."""


@functools.cache
def _builtins() -> Mapping[tuple[str, str], _Storage]:
    """Return what an apiserver serves by itself, by group and resource."""
    text = resources.files("app.dispatch").joinpath("builtins.json").read_bytes()
    return {
        (parse_api_version(api_version)[0], builtin.resource): storage
        for builtin in msgspec.json.decode(text, type=list[_Builtin])
        for storage in (_Storage(builtin.namespaced, _served(builtin)),)
        for api_version in builtin.served
    }


def _served(builtin: _Builtin) -> dict[str, tuple[Equivalent, ...]]:
    found: dict[str, list[Equivalent]] = {}
    for api_version, kinds in builtin.served.items():
        resource = GroupVersionResource(*parse_api_version(api_version), builtin.resource)
        for subresource, text in kinds.items():
            other, _, kind = text.rpartition("/")
            known = GroupVersionKind(*parse_api_version(other or api_version), kind)
            found.setdefault(subresource, []).append(Equivalent(resource, known))
    return {subresource: tuple(equivalents) for subresource, equivalents in found.items()}
