"""Explains why a subject has no node pools, and finds names in its spec for which no NodePool exists."""

from fleethook.engines.overrider.subject.node_pools import NodePoolView
from fleethook.engines.overrider.subject.pools import listed_pools
from fleethook.engines.overrider.subject.subject_parts import depends_on_node_pools, is_v1beta1
from fleethook.engines.overrider.subject.unaffected_workloads import list_names
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET


def absent_pools(subject: JSONObject, *, cluster: str, store: NodePoolView) -> tuple[str, ...]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1 for which there is no NodePool.

    OpenYurt's controller ignores these names and does not report them in the status, as long as another pool exists
    (v1.7.0, pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go: getSelectedNodepools).
    """
    if not is_v1beta1(subject):
        return ()
    names = dict.fromkeys(listed_pools(subject))
    return tuple(name for name in names if store.get(cluster, NODE_POOL, "", name) is None)


def describe_lack_of_pools(group_kind: GroupKind, subject: JSONObject, absent: tuple[str, ...]) -> str:
    """Return the reason why a subject has no node pools, as a message.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: A subject without node pools.
        absent: The result of `absent_pools` for this subject.
    """
    spec, name = as_object(subject.get("spec")), f"{group_kind.kind} {subject['metadata']['name']}"
    if not depends_on_node_pools(group_kind, subject):
        return f"{name} has no node pool: spec.topology.pools is empty"
    reasons = [f"there is no NodePool {list_names(absent)}, which spec.pools names"] if absent else []
    if isinstance(spec.get("nodepoolSelector"), dict):
        reasons.append("no NodePool has the labels that spec.nodepoolSelector selects")
    listed = "spec.pools and spec.nodepoolSelector are" if group_kind == YURT_APP_SET else "spec.nodepoolSelector is"
    return f"{name} has no node pool: {', and '.join(reasons) or f'{listed} empty'}"
