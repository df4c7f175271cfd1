"""Which logical cluster owns the schema of a resource, and so whose webhooks are asked (seed 002, research 1.3).

kcp takes the first APIBinding of the consumer that has the resource among its ``status.boundResources`` and goes to
the cluster of its export; everything else is local. Where that silently asks nobody - two bindings, no name of the
export's cluster, an owner of which nothing is known, a binding that is still being bound - no owner is returned here,
and the request is refused; a setting (``as_kcp``) decides as kcp does.
"""

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from app.dispatch.equivalent_resources import DEFINITIONS_BY_RESOURCE
from app.dispatch.workspace_paths import resolve, resolve_cluster
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import API_BINDING, API_EXPORT, LOGICAL_CLUSTER
from app.store import Index, Stored, StoreView


def _bound(binding: JSONObject) -> Iterator[tuple[str, str, str]]:
    """Yield group, resource and name of the schema of what a binding has bound."""
    resources = as_object(binding.get("status")).get("boundResources")
    for resource in resources if isinstance(resources, list) else ():
        one = as_object(resource)
        schema = as_object(one.get("schema")).get("name")
        yield _text(one.get("group")), _text(one.get("resource")), _text(schema)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _bound_keys(_cluster: str, binding: Stored) -> list[tuple[str, str]]:
    return [(group, resource) for group, resource, _ in _bound(binding)]


def _unbound_keys(_cluster: str, binding: Stored) -> list[None]:
    return [] if any(_bound(binding)) else [None]


def _exported_keys(_cluster: str, found: Stored) -> list[tuple[str, str, str]]:
    return [(group, resource, _name(found)) for group, resource in _exported(found)]


BINDINGS_BY_RESOURCE: Final = Index("bindings_by_resource", API_BINDING, _bound_keys)
UNBOUND_BINDINGS: Final = Index("unbound_bindings", API_BINDING, _unbound_keys)
EXPORTS_BY_RESOURCE: Final = Index("exports_by_resource", API_EXPORT, _exported_keys)

# A workspace begins with some ten bindings. Each that is not bound yet has to be looked at in every request.
MAX_UNBOUND: Final = 1_000
# APIBindings of the same resource that an error names.
_NAMED: Final = 5


class OwnerStatus(enum.StrEnum):
    """How an owner was found, or why none was."""

    LOCAL = "local"
    """No binding has the resource: the object's own cluster."""
    BOUND = "bound"
    DANGLING = "dangling"
    """Bound, but the export is not there any more; its cluster still owns the schema."""
    AMBIGUOUS = "ambiguous"
    """Two bindings to different clusters have it."""
    NAMELESS = "nameless"
    """The binding does not say which cluster its export is in."""
    UNKNOWN = "unknown"
    """Nothing is known of the cluster, or of the one that the export is in."""
    UNBOUND = "unbound"
    """A binding that is not bound yet will have it."""


class Ownership(NamedTuple):
    """Whose webhooks are asked."""

    case: OwnerStatus
    cluster: str | None
    """The owner; None where there is none, and the request is to be refused."""
    trace: tuple[str, ...]
    """How that was found, step by step."""
    problem: str = ""
    """Why there is none, or what an administrator should know."""
    binding: str = ""
    export: str = ""
    schema: tuple[str, str] | None = None
    """Cluster and name of the APIResourceSchema, where a binding names one."""


def find_owner(
    store: StoreView, *, cluster: str, group: str, resource: str, as_kcp: bool = False, vouched: bool = False
) -> Ownership:
    """Return who owns the schema of a resource as a cluster sees it.

    Args:
        store: Indexed by `BINDINGS_BY_RESOURCE`, `UNBOUND_BINDINGS` and `EXPORTS_BY_RESOURCE`.
        cluster: The logical cluster of the object, by name.
        group: Of the resource.
        resource: The plural, without a subresource: bindings know neither subresources nor versions.
        as_kcp: Whether to decide as kcp does where that asks nobody.
        vouched: Whether the caller stores the object in that cluster. A cluster of which nothing is known is then one
            without webhooks, unless the store has LogicalClusters: a kcp has one for each cluster that exists.
    """
    named = f"{resource}.{group}" if group else resource
    if not as_kcp and not store.knows(cluster):
        if vouched and not store.has(LOGICAL_CLUSTER):
            return Ownership(OwnerStatus.LOCAL, cluster, (f"{cluster} has no objects here, and so no webhooks",))
        reason = resolve(store, cluster).problem or f"nothing is known of logical cluster {cluster or '(none)'}"
        problem = f"{reason}, so nobody can tell whose webhooks decide"
        return Ownership(OwnerStatus.UNKNOWN, None, (problem,), problem)
    bindings = store.find(BINDINGS_BY_RESOURCE, cluster, (group, resource))
    if not bindings:
        return _without_binding(store, cluster=cluster, group=group, resource=resource, as_kcp=as_kcp)
    clusters = {_export_cluster(binding) for binding in bindings}
    if len(clusters) > 1 and not as_kcp:
        claims = ", ".join(f"{_name(one)} (of {_export_cluster(one) or 'no cluster'})" for one in bindings[:_NAMED])
        claims += f" and {len(bindings) - _NAMED} more" if len(bindings) > _NAMED else ""
        problem = f"several APIBindings of {cluster} have {named}: {claims}; remove all but one"
        return Ownership(OwnerStatus.AMBIGUOUS, None, (problem,), problem)
    return _bound_owner(store, bindings[0], cluster=cluster, named=(group, resource), as_kcp=as_kcp)


def _bound_owner(
    store: StoreView, binding: JSONObject, *, cluster: str, named: tuple[str, str], as_kcp: bool
) -> Ownership:
    owner, name = _export_cluster(binding), _name(binding)
    export, path = _reference(binding)
    schema = next((text for group, resource, text in _bound(binding) if (group, resource) == named), "")
    where = f" ({path})" if path else ""
    phase = _text(as_object(binding.get("status")).get("phase")) or "no phase"
    found = Ownership(
        OwnerStatus.BOUND,
        owner,
        (
            f"APIBinding {name} of {cluster} ({phase}) has {'.'.join(part for part in reversed(named) if part)}",
            f"it binds APIExport {export or '?'} of {owner or '?'}{where}, so the schema is owned there",
        ),
        binding=name,
        export=export,
        schema=(owner, schema) if schema else None,
    )
    if not owner:
        problem = f"APIBinding {name} of {cluster} does not say which cluster its export is in (apiExportClusterName)"
        return _unless(as_kcp, found, OwnerStatus.NAMELESS, problem)
    if owner == cluster or store.get(owner, API_EXPORT, "", export) is not None:
        return found
    if not store.knows(owner):
        problem = f"nothing is known of {owner}, where APIBinding {name} of {cluster} has its export"
        return _unless(as_kcp, found, OwnerStatus.UNKNOWN, problem)
    problem = f"APIExport {export or '?'} is not in {owner} any more; that cluster's webhooks are asked all the same"
    return found._replace(case=OwnerStatus.DANGLING, problem=problem, trace=(*found.trace, problem))


def _unless(as_kcp: bool, found: Ownership, case: OwnerStatus, problem: str) -> Ownership:  # noqa: FBT001 - private
    trace = (*found.trace, problem)
    return found._replace(case=case, cluster=found.cluster if as_kcp else None, problem=problem, trace=trace)


def _without_binding(store: StoreView, *, cluster: str, group: str, resource: str, as_kcp: bool) -> Ownership:
    named = f"{resource}.{group}" if group else resource
    local = Ownership(OwnerStatus.LOCAL, cluster, (f"no APIBinding of {cluster} has {named}: it is local",))
    if store.find(DEFINITIONS_BY_RESOURCE, cluster, (group, resource)):
        return local._replace(trace=(*local.trace, f"{cluster} has a CustomResourceDefinition of it"))
    unbound = store.find(UNBOUND_BINDINGS, cluster, None)
    if len(unbound) > MAX_UNBOUND:
        problem = (
            f"{cluster} has {len(unbound)} APIBindings that are not bound yet, and the limit is {MAX_UNBOUND}, so "
            f"nobody can tell whether one of them will have {named}; remove some"
        )
        return _unless(as_kcp, local, OwnerStatus.UNBOUND, problem)
    for binding in unbound:
        export, path = _reference(binding)
        where = _export_cluster(binding) or resolve_cluster(store, path or cluster)
        if store.find(EXPORTS_BY_RESOURCE, where, (group, resource, export)):
            problem = f"APIBinding {_name(binding)} of {cluster} will have {named}, and is not bound yet; ask again"
            return _unless(as_kcp, local, OwnerStatus.UNBOUND, problem)
    return local


def _exported(export: Stored | None) -> Iterator[tuple[str, str]]:
    """Yield group and plural of what an APIExport has, in either of its versions."""
    spec = as_object(as_object(export).get("spec"))
    resources, schemas = spec.get("resources"), spec.get("latestResourceSchemas")
    for one in resources if isinstance(resources, list) else ():
        yield _text(as_object(one).get("group")), _text(as_object(one).get("name"))
    for schema in schemas if isinstance(schemas, list) else ():
        # As v1alpha1 has them, a prefix before the plural and the group.
        _, _, rest = _text(schema).partition(".")
        plural, _, group = rest.partition(".")
        yield "" if group == "core" else group, plural


def _name(binding: JSONObject) -> str:
    return _text(as_object(binding.get("metadata")).get("name"))


def _export_cluster(binding: JSONObject) -> str:
    return _text(as_object(binding.get("status")).get("apiExportClusterName"))


def _reference(binding: JSONObject) -> tuple[str, str]:
    """Return name and path of the export that a binding is for."""
    export = as_object(as_object(as_object(binding.get("spec")).get("reference")).get("export"))
    return _text(export.get("name")), _text(export.get("path"))
