"""Finds the logical cluster that owns the schema of a resource, and that of a path such as ``root:org:ws``.

The webhooks of the owner are called.

kcp (`getSourceClusterForGroupResource` in pkg/admission/validatingwebhook/plugin.go) takes the first APIBinding of the
consumer that lists the resource in ``status.boundResources``. The webhooks of the cluster of its APIExport are called.
Without such a binding, the consumer's own webhooks are called.

kcp calls no webhook in some cases: two bindings, no name of the export's cluster, an unknown owner, a binding that is
not bound yet. `find_owner` returns no owner then, and the request is refused. With ``as_kcp`` it decides like kcp.
"""

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.cluster.store import Index, Stored, StoreView
from fleethook.engines.dispatch.match.equivalent_resources import DEFINITIONS_BY_RESOURCE
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSONObject, as_object, as_text, list_objects, list_texts
from fleethook.model.kcp import API_BINDING, API_EXPORT, LOGICAL_CLUSTER, LOGICAL_CLUSTER_NAME, WORKSPACE, is_path

# kcp's own paths have about five names. Any tenant may write the path of an APIExport.
_MAX_NAMES: Final = 63
_MAX_SHOWN: Final = 100


class ResolvedPath(NamedTuple):
    """The logical cluster of a name or a path."""

    cluster: str
    """The name of the logical cluster; the path itself if it is unknown."""
    problem: str = ""
    """Why the path cannot be resolved, ``""`` if it can."""


def resolve(store: StoreView, text: str) -> ResolvedPath:
    """Return the logical cluster of a name or a path.

    Args:
        store: The Workspaces and LogicalClusters.
        text: The name or the path.
    """
    if not is_path(text):
        return ResolvedPath(text)
    cluster, *names = text.split(":", _MAX_NAMES + 1)
    if len(names) > _MAX_NAMES:
        return ResolvedPath(text, f"{text[:_MAX_SHOWN]}...: paths of more than {_MAX_NAMES + 1} names are not followed")
    for name in names:
        workspace = store.get(cluster, WORKSPACE, "", name)
        child = as_object(as_object(workspace).get("spec")).get("cluster")
        if not isinstance(child, str) or not child:
            return ResolvedPath(text, f"{text}: {_explain_gap(store, cluster, name, known=workspace is not None)}")
        cluster = child
    return ResolvedPath(cluster)


def resolve_cluster(store: StoreView, text: str) -> str:
    """Return the name of the logical cluster of a name or a path; an unknown path is returned unchanged."""
    return resolve(store, text).cluster


def _explain_gap(store: StoreView, cluster: str, name: str, *, known: bool) -> str:
    """Return why a path ends at a Workspace of a logical cluster."""
    # A kcp has a LogicalCluster in each logical cluster.
    if store.has(LOGICAL_CLUSTER) and store.get(cluster, LOGICAL_CLUSTER, "", LOGICAL_CLUSTER_NAME) is None:
        return f"logical cluster {cluster} is unknown{hint_at_shards(store)}"
    found = "is not scheduled yet" if known else f"is unknown{_ONE_WORKSPACE if _sees_one_workspace(store) else ''}"
    return f"Workspace {name} of logical cluster {cluster} {found}"


_ONE_WORKSPACE: Final = " (only one workspace is read; give the kubeconfig of the other one, or --kcp)"


def _sees_one_workspace(store: StoreView) -> bool:
    """Return whether the objects are those of a workspace of kcp that its user may see, without exports of others."""
    return store.has(LOGICAL_CLUSTER) and not store.has(API_EXPORT) and not store.has(WORKSPACE)


def hint_at_shards(store: StoreView, *, cached: bool = False) -> str:
    """Return why a logical cluster of a kcp may be unknown, ``""`` if the store has no objects of a kcp.

    Args:
        store: The objects.
        cached: Whether the cache server of the kcp knows the cluster, because it has an APIExport.
    """
    if not store.has(LOGICAL_CLUSTER):
        return ""
    if _sees_one_workspace(store):
        return _ONE_WORKSPACE
    remedy = "give the kubeconfig of its shard, and a logical cluster of that shard by its name instead of its path"
    if cached:
        remedy = "--kcp-cache-kubeconfig reads the cache server, which has its exports and webhooks"
    return f" (it may be on another shard of the kcp; {remedy})"


def _list_bound(binding: JSONObject) -> Iterator[tuple[str, str, str]]:
    """Yield group, resource and schema name of each bound resource."""
    for bound in list_objects(as_object(binding.get("status")).get("boundResources")):
        yield (
            as_text(bound.get("group")),
            as_text(bound.get("resource")),
            as_text(as_object(bound.get("schema")).get("name")),
        )


def _index_bound(_cluster: str, binding: Stored) -> list[tuple[str, str]]:
    return [(group, resource) for group, resource, _ in _list_bound(binding)]


def _index_unbound(_cluster: str, binding: Stored) -> list[None]:
    # An export may have only permission claims.
    is_bound = as_object(as_object(binding).get("status")).get("phase") == "Bound" or any(_list_bound(binding))
    return [] if is_bound else [None]


def _index_exported(_cluster: str, export: Stored) -> list[tuple[str, str, str]]:
    return [(group, resource, _read_name(export)) for group, resource in list_exported(export)]


BINDINGS_BY_RESOURCE: Final = Index("bindings_by_resource", API_BINDING, _index_bound)
UNBOUND_BINDINGS: Final = Index("unbound_bindings", API_BINDING, _index_unbound)
EXPORTS_BY_RESOURCE: Final = Index("exports_by_resource", API_EXPORT, _index_exported)
INDEXES: Final[tuple[Index, ...]] = (
    BINDINGS_BY_RESOURCE,
    UNBOUND_BINDINGS,
    EXPORTS_BY_RESOURCE,
    DEFINITIONS_BY_RESOURCE,
)
"""The indexes that the store of a dispatcher needs."""

# A new workspace has about ten bindings. Each unbound one is examined in every request.
MAX_UNBOUND: Final = 1_000
# The number of APIBindings that an error lists.
_MAX_LISTED: Final = 5


class OwnerStatus(enum.StrEnum):
    """The outcome of a search for the owner."""

    LOCAL = "local"
    """No binding lists the resource; the object's own cluster owns it."""
    BOUND = "bound"
    DANGLING = "dangling"
    """The resource is bound, but its APIExport is gone. The export's cluster still owns the schema."""
    AMBIGUOUS = "ambiguous"
    """Bindings to different clusters list the resource."""
    NAMELESS = "nameless"
    """The binding does not name the cluster of its APIExport."""
    UNKNOWN = "unknown"
    """The cluster, or the cluster of the APIExport, is unknown."""
    UNBOUND = "unbound"
    """A binding that is not bound yet will list the resource."""
    UNSEEN = "unseen"
    """The user sees only the consumer's workspace."""


class Ownership(NamedTuple):
    """The owner of a schema, and how it was found."""

    status: OwnerStatus
    cluster: str | None
    """The owner; None if there is none. The request is refused then."""
    trace: tuple[str, ...]
    """The steps of the search."""
    problem: str = ""
    """Why there is no owner, or a warning for administrators."""
    binding: str = ""
    export: str = ""
    schema: tuple[str, str] | None = None
    """Cluster and name of the APIResourceSchema, if a binding names one."""


def find_owner(
    store: StoreView, *, cluster: str, group: str, resource: str, as_kcp: bool = False, cluster_exists: bool = False
) -> Ownership:
    """Return the logical cluster that owns the schema of a resource of a consumer.

    Args:
        store: Indexed by `BINDINGS_BY_RESOURCE`, `UNBOUND_BINDINGS` and `EXPORTS_BY_RESOURCE`.
        cluster: The name of the consumer's logical cluster.
        group: The API group of the resource.
        resource: The plural without a subresource. Bindings know neither subresources nor versions.
        as_kcp: Decide like kcp where kcp calls no webhook.
        cluster_exists: The caller stores the object in that cluster, so an unknown cluster is one without webhooks. It
            stays unknown if the store has LogicalClusters: kcp has one for each cluster.
    """
    named = f"{resource}.{group}" if group else resource
    if not as_kcp and not store.knows(cluster):
        if cluster_exists and not store.has(LOGICAL_CLUSTER):
            trace = f"the store has no objects of {cluster or 'the cluster'}, so no webhooks"
            return Ownership(OwnerStatus.LOCAL, cluster, (trace,))
        unknown = f"logical cluster {cluster or '(none)'} is unknown{hint_at_shards(store)}"
        reason = resolve(store, cluster).problem or unknown
        problem = f"{reason}, so the owner of the schema is unknown"
        return Ownership(OwnerStatus.UNKNOWN, None, (problem,), problem)
    bindings = store.find(BINDINGS_BY_RESOURCE, cluster, (group, resource))
    if not bindings:
        return _find_local_owner(store, cluster=cluster, group=group, resource=resource, as_kcp=as_kcp)
    clusters = {_read_export_cluster(binding) for binding in bindings}
    if len(clusters) > 1 and not as_kcp:
        claims = [f"{_read_name(one)} (of {_read_export_cluster(one) or 'no cluster'})" for one in bindings]
        listed = list_names(claims, most=_MAX_LISTED)
        problem = f"several APIBindings of {cluster} list {named}: {listed}; remove all but one"
        return Ownership(OwnerStatus.AMBIGUOUS, None, (problem,), problem)
    return _find_bound_owner(store, bindings[0], cluster=cluster, named=(group, resource), as_kcp=as_kcp)


def _find_bound_owner(
    store: StoreView, binding: JSONObject, *, cluster: str, named: tuple[str, str], as_kcp: bool
) -> Ownership:
    owner, name = _read_export_cluster(binding), _read_name(binding)
    export, path = _read_reference(binding)
    schema = next((text for group, resource, text in _list_bound(binding) if (group, resource) == named), "")
    where = f" ({path})" if path else ""
    phase = as_text(as_object(binding.get("status")).get("phase")) or "no phase"
    ownership = Ownership(
        OwnerStatus.BOUND,
        owner,
        (
            f"APIBinding {name} of {cluster} ({phase}) lists {'.'.join(part for part in reversed(named) if part)}",
            f"it binds APIExport {export or '?'} of {owner or '?'}{where}, which owns the schema",
        ),
        binding=name,
        export=export,
        schema=(owner, schema) if schema else None,
    )
    if not owner:
        problem = f"APIBinding {name} of {cluster} does not name the cluster of its APIExport (apiExportClusterName)"
        return _refuse_unless(as_kcp, ownership, OwnerStatus.NAMELESS, problem)
    if owner == cluster or store.get(owner, API_EXPORT, "", export) is not None:
        return ownership
    if not store.knows(owner):
        unknown = f"logical cluster {owner} of the APIExport of APIBinding {name} of {cluster}"
        if _sees_one_workspace(store):
            problem = (
                f"the webhooks of {owner}, which APIBinding {name} binds, cannot be seen with the rights of a "
                "workspace: ask the provider, who runs this command with --kcp-export, or use --kcp"
            )
            return ownership._replace(
                status=OwnerStatus.UNSEEN, cluster=None, problem=problem, trace=(*ownership.trace, problem)
            )
        problem = f"{unknown} is unknown{hint_at_shards(store, cached=True)}"
        return _refuse_unless(as_kcp, ownership, OwnerStatus.UNKNOWN, problem)
    problem = f"APIExport {export or '?'} of {owner} is gone; the webhooks of {owner} are still called"
    return ownership._replace(status=OwnerStatus.DANGLING, problem=problem, trace=(*ownership.trace, problem))


def _refuse_unless(as_kcp: bool, found: Ownership, status: OwnerStatus, problem: str) -> Ownership:  # noqa: FBT001 - private
    trace = (*found.trace, problem)
    return found._replace(status=status, cluster=found.cluster if as_kcp else None, problem=problem, trace=trace)


def _find_local_owner(store: StoreView, *, cluster: str, group: str, resource: str, as_kcp: bool) -> Ownership:
    named = f"{resource}.{group}" if group else resource
    local = Ownership(
        OwnerStatus.LOCAL, cluster, (f"no APIBinding{f' of {cluster}' if cluster else ''} lists {named}: it is local",)
    )
    if store.find(DEFINITIONS_BY_RESOURCE, cluster, (group, resource)):
        return local._replace(trace=(*local.trace, f"{cluster or 'the cluster'} has a CustomResourceDefinition for it"))
    unbound = store.find(UNBOUND_BINDINGS, cluster, None)
    if len(unbound) > MAX_UNBOUND:
        problem = (
            f"{cluster} has {len(unbound)} APIBindings that are not bound yet (limit {MAX_UNBOUND}), so the owner of "
            f"{named} is unknown; remove some"
        )
        return _refuse_unless(as_kcp, local, OwnerStatus.UNBOUND, problem)
    for binding in unbound:
        export, path = _read_reference(binding)
        where = _read_export_cluster(binding) or resolve_cluster(store, path or cluster)
        if _sees_one_workspace(store) and where != cluster:
            problem = f"APIBinding {_read_name(binding)} of {cluster} is not bound yet, and may list {named}; try again"
            return local._replace(
                status=OwnerStatus.UNSEEN, cluster=None, problem=problem, trace=(*local.trace, problem)
            )
        if store.find(EXPORTS_BY_RESOURCE, where, (group, resource, export)):
            problem = (
                f"APIBinding {_read_name(binding)} of {cluster} will list {named}, but is not bound yet; try again"
            )
            return _refuse_unless(as_kcp, local, OwnerStatus.UNBOUND, problem)
    return local


def list_exported(export: Stored | None) -> Iterator[tuple[str, str]]:
    """Yield group and plural of each resource of an APIExport, v1alpha1 or v1alpha2."""
    spec = as_object(as_object(export).get("spec"))
    for resource in list_objects(spec.get("resources")):
        yield as_text(resource.get("group")), as_text(resource.get("name"))
    for schema in list_texts(spec.get("latestResourceSchemas")):
        # v1alpha1 lists schema names: a prefix, the plural and the group.
        plural, _, group = schema.partition(".")[2].partition(".")
        yield "" if group == "core" else group, plural


def _read_name(binding: JSONObject) -> str:
    return as_text(as_object(binding.get("metadata")).get("name"))


def _read_export_cluster(binding: JSONObject) -> str:
    return as_text(as_object(binding.get("status")).get("apiExportClusterName"))


def _read_reference(binding: JSONObject) -> tuple[str, str]:
    """Return name and path of the APIExport of a binding."""
    export = as_object(as_object(as_object(binding.get("spec")).get("reference")).get("export"))
    return as_text(export.get("name")), as_text(export.get("path"))
