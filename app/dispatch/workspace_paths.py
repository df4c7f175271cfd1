"""Resolves workspace paths, such as ``root:org:ws``, to the names of logical clusters.

A path is followed from its first cluster through the Workspaces. Each Workspace is an object of its parent and names
its logical cluster in ``spec.cluster``. The annotation ``kcp.io/path`` of a LogicalCluster is ignored, because an
administrator of a workspace can write it. They could redirect the reviews of another workspace to their own webhooks.
"""

from typing import Final, NamedTuple

from app.model.json import JSON, as_object
from app.model.kcp import LOGICAL_CLUSTER, LOGICAL_CLUSTER_NAME, WORKSPACE, is_path
from app.store import StoreView

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
            found = "is not scheduled yet" if workspace is not None else "is unknown"
            return ResolvedPath(text, f"{text}: Workspace {name} of logical cluster {cluster} {found}")
        if problem := _find_contradiction(store, child, parent=cluster, name=name):
            return ResolvedPath(text, f"{text}: {problem}")
        cluster = child
    return ResolvedPath(cluster)


def resolve_cluster(store: StoreView, text: str) -> str:
    """Return the name of the logical cluster of a name or a path; an unknown path is returned unchanged."""
    return resolve(store, text).cluster


def _find_contradiction(store: StoreView, child: str, *, parent: str, name: str) -> str:
    """Return why a LogicalCluster contradicts the Workspace that names it, ``""`` if it does not."""
    logical_cluster = store.get(child, LOGICAL_CLUSTER, "", LOGICAL_CLUSTER_NAME)
    owner: JSON = as_object(as_object(logical_cluster).get("spec")).get("owner")
    if not isinstance(owner, dict) or (owner.get("cluster"), owner.get("name")) == (parent, name):
        return ""
    return (
        f"Workspace {name} of logical cluster {parent} names {child}, whose LogicalCluster belongs to Workspace "
        f"{owner.get('name')} of {owner.get('cluster')}"
    )
