"""Subjects without node pools, and node pools that a YurtAppSet v1beta1 names and nobody has created."""

from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.openyurt import API_VERSION, NODE_POOL, YURT_APP_DAEMON, YURT_APP_SET
from app.overrider.gaps import list_names
from app.store import StoreView


def absent_pools(group_kind: GroupKind, subject: JSONObject, *, cluster: str, store: StoreView) -> tuple[str, ...]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1 for which there is no NodePool.

    OpenYurt's controller passes over them without a word in the status, as long as another pool is found
    (v1.7.0, pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go: getSelectedNodepools).
    """
    if not _names_node_pools(group_kind, subject):
        return ()
    named = as_object(subject.get("spec")).get("pools")
    names = [name for name in named if isinstance(name, str) and name] if isinstance(named, list) else []
    return tuple(name for name in dict.fromkeys(names) if store.get(cluster, NODE_POOL, "", name) is None)


def needs_node_pools(group_kind: GroupKind, subject: JSONObject) -> bool:
    """Return whether NodePools tell which workloads a subject has."""
    return group_kind == YURT_APP_DAEMON or _names_node_pools(group_kind, subject)


def describe_lack_of_pools(group_kind: GroupKind, subject: JSONObject, absent: tuple[str, ...]) -> str:
    """Return why a subject without node pools has none.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: A subject to which no node pool belongs.
        absent: Its `absent_pools`.
    """
    spec, name = as_object(subject.get("spec")), f"{group_kind.kind} {subject['metadata']['name']}"
    if group_kind == YURT_APP_SET and not _names_node_pools(group_kind, subject):
        return f"{name} has no node pool: spec.topology.pools is empty"
    reasons = [f"there is no NodePool {list_names(absent)}, which spec.pools names"] if absent else []
    if isinstance(spec.get("nodepoolSelector"), dict):
        reasons.append("no NodePool has the labels that spec.nodepoolSelector selects")
    listed = "spec.pools and spec.nodepoolSelector are" if group_kind == YURT_APP_SET else "spec.nodepoolSelector is"
    return f"{name} has no node pool: {', and '.join(reasons) or f'{listed} empty'}"


def _names_node_pools(group_kind: GroupKind, subject: JSONObject) -> bool:
    return group_kind == YURT_APP_SET and subject.get("apiVersion") != API_VERSION
