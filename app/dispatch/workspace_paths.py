"""Which logical cluster a path names, such as ``root:org:ws``.

A path is followed from its first cluster through the Workspaces: each is an object of its parent, and says in
``spec.cluster`` which logical cluster it is. The annotation ``kcp.io/path`` of a LogicalCluster is not asked: an
administrator of a workspace can write it, and would have the reviews of another one sent to webhooks of his own.
"""

from typing import Final, NamedTuple

from app.model.json import JSON, as_object
from app.model.kcp import LOGICAL_CLUSTER, LOGICAL_CLUSTER_NAME, WORKSPACE, is_path
from app.store import StoreView

# kcp's own paths have some five names; the path of an export is a text that any tenant may write.
_MAX_NAMES: Final = 63
_SHOWN: Final = 100


class ResolvedPath(NamedTuple):
    """The logical cluster that a name or a path stands for."""

    cluster: str
    """The name of the logical cluster; of an unknown path, the path."""
    problem: str = ""
    """Why a path names no logical cluster, ``""`` if it does."""


def resolve(store: StoreView, text: str) -> ResolvedPath:
    """Return the logical cluster that is given by its name or its path.

    Args:
        store: The Workspaces and LogicalClusters.
        text: The name or the path.
    """
    if not is_path(text):
        return ResolvedPath(text)
    cluster, *names = text.split(":", _MAX_NAMES + 1)
    if len(names) > _MAX_NAMES:
        return ResolvedPath(text, f"{text[:_SHOWN]}...: a path of more than {_MAX_NAMES + 1} names is not followed")
    for name in names:
        workspace = store.get(cluster, WORKSPACE, "", name)
        child = as_object(as_object(workspace).get("spec")).get("cluster")
        if not isinstance(child, str) or not child:
            found = "is not scheduled yet" if workspace is not None else "is not known"
            return ResolvedPath(text, f"{text}: Workspace {name} of logical cluster {cluster} {found}")
        if problem := _contradiction(store, child, parent=cluster, name=name):
            return ResolvedPath(text, f"{text}: {problem}")
        cluster = child
    return ResolvedPath(cluster)


def resolve_cluster(store: StoreView, text: str) -> str:
    """Return the name of a logical cluster that may be given by its path; an unknown path stays as it is."""
    return resolve(store, text).cluster


def _contradiction(store: StoreView, child: str, *, parent: str, name: str) -> str:
    """Return why a logical cluster is not the one that a Workspace says, ``""`` if nothing speaks against it."""
    logical_cluster = store.get(child, LOGICAL_CLUSTER, "", LOGICAL_CLUSTER_NAME)
    owner: JSON = as_object(as_object(logical_cluster).get("spec")).get("owner")
    if not isinstance(owner, dict) or (owner.get("cluster"), owner.get("name")) == (parent, name):
        return ""
    return (
        f"Workspace {name} of logical cluster {parent} names {child}, whose LogicalCluster belongs to Workspace "
        f"{owner.get('name')} of {owner.get('cluster')}"
    )
