"""Resolves workspace paths, such as ``root:org:ws``, to the names of logical clusters.

A path is followed from its first cluster through the Workspaces. Each Workspace is an object of its parent and names
its logical cluster in ``spec.cluster``, which only kcp itself can write (pkg/admission/workspace/admission.go). The
annotation ``kcp.io/path`` and ``spec.owner`` of a LogicalCluster are ignored, because an administrator of a workspace
can write them. They could redirect the reviews of another workspace to their own webhooks.
"""

from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.model.json import as_object
from fleethook.model.kcp import LOGICAL_CLUSTER, LOGICAL_CLUSTER_NAME, WORKSPACE, is_path

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
    found = "is not scheduled yet" if known else "is unknown"
    return f"Workspace {name} of logical cluster {cluster} {found}"


def hint_at_shards(store: StoreView, *, cached: bool = False) -> str:
    """Return why a logical cluster of a kcp may be unknown, ``""`` if the store has no objects of a kcp.

    Args:
        store: The objects.
        cached: Whether the cache server of the kcp knows the cluster, because it has an APIExport.
    """
    if not store.has(LOGICAL_CLUSTER):
        return ""
    remedy = "give the kubeconfig of its shard, and a logical cluster of that shard by its name instead of its path"
    if cached:
        remedy = "--kcp-cache-kubeconfig reads the cache server, which has its exports and webhooks"
    return f" (it may be on another shard of the kcp; {remedy})"
