"""Lists the node pools that a subject has workloads in."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from fleethook.cluster.store.store import Stored
from fleethook.engines.overrider.subject.subject_parts import SetSelections, is_v1beta1
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL, YURT_APP_SET
from fleethook.model.selectors import compile_selector


class NodePoolView(Protocol):
    """The methods of a store that read NodePools."""

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""


class NodePools:
    """A copy of the list of NodePools of one cluster. It never changes, so a thread may read it."""

    def __init__(self, view: NodePoolView, cluster: str) -> None:
        """Copy the list of NodePools of a cluster."""
        self._cluster: Final = cluster
        self._by_name: Final = {one["metadata"]["name"]: one for one in view.each(cluster, NODE_POOL)}

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the NodePool of that name, None for anything else."""
        return self._by_name.get(name) if (cluster, group_kind, namespace) == (self._cluster, NODE_POOL, "") else None

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the NodePools of the cluster."""
        return iter(self._by_name.values() if (cluster, group_kind) == (self._cluster, NODE_POOL) else ())


def pools_of_subject(group_kind: GroupKind, subject: JSONObject, *, cluster: str, store: NodePoolView) -> list[str]:
    """Return the names of the node pools in which ``subject`` has workloads, in a stable order.

    A YurtAppSet v1alpha1 lists them in its topology. A YurtAppDaemon selects NodePools by label. A YurtAppSet v1beta1
    lists or selects NodePools. If the store has no NodePool, as with manifests without any, all pools that the set
    lists count as existing.
    """
    spec = as_object(subject.get("spec"))
    if is_v1beta1(subject):
        return _select_pools_of_set(subject, list(store.each(cluster, NODE_POOL)))
    if group_kind == YURT_APP_SET:
        return [name for name in topology(spec) if name]
    selects = compile_selector(spec.get("nodepoolSelector"))
    return sorted(
        node_pool["metadata"]["name"]
        for node_pool in store.each(cluster, NODE_POOL)
        if selects(as_object(node_pool["metadata"].get("labels")))
    )


def _select_pools_of_set(subject: JSONObject, node_pools: Sequence[JSONObject]) -> list[str]:
    if not node_pools:
        return sorted(listed_pools(subject))
    selections = SetSelections(subject)
    named = ((node_pool["metadata"]["name"], node_pool) for node_pool in node_pools)
    return sorted(name for name, node_pool in named if selections.selects(name, node_pool))


def listed_pools(subject: JSONObject) -> list[str]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1."""
    listed = as_object(subject.get("spec")).get("pools")
    return [name for name in listed if isinstance(name, str) and name] if isinstance(listed, list) else []


def topology(spec: JSON) -> dict[str, JSONObject]:
    """Return a YurtAppSet's pools by name, without elements that are not objects with a name."""
    pools = as_object(as_object(spec).get("topology")).get("pools")
    return {
        pool["name"]: pool
        for pool in (pools if isinstance(pools, list) else ())
        if isinstance(pool, dict) and isinstance(pool.get("name"), str)
    }
