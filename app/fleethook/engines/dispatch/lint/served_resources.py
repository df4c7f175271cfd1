"""Finds the resources that a logical cluster serves, as far as the store knows."""

from collections.abc import Iterator
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.hooks.hooks import EVERY
from fleethook.engines.dispatch.match.equivalent_resources import find_equivalents, is_namespaced
from fleethook.engines.dispatch.owner.schema_owner import find_owner
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource
from fleethook.model.json import JSON, as_object
from fleethook.model.kcp import API_EXPORT, API_RESOURCE_SCHEMA

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
        store: Indexed by `fleethook.engines.dispatch.owner.schema_owner.INDEXES`.
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


def read_text(value: JSON) -> str:
    """Return a string, ``""`` for other types."""
    return value if isinstance(value, str) else ""
