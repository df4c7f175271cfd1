"""A snapshot of the NodePools of a cluster, for checks that take long."""

from collections.abc import Iterator
from typing import Final, Protocol

from fleethook.cluster.store.store import Stored
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import NODE_POOL


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
