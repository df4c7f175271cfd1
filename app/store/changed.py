"""A view of the store with one object as it is about to be."""

from collections.abc import Hashable, Iterator
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.store.store import Index, ObjectKey, Stored, StoreView


class ChangedStore:
    """Another store, read through one changed object.

    Indexes are those of the other store: use it for kinds that no index is asked for.
    """

    def __init__(self, store: StoreView, key: ObjectKey, document: JSONObject) -> None:
        self._store: Final = store
        self._key: Final = key
        self._document: Final = document

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        if self._key == (cluster, group_kind, namespace, name):
            return self._document
        return self._store.get(cluster, group_kind, namespace, name)

    def find(self, index: Index, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects under ``key`` in the other store."""
        return self._store.find(index, key)

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""
        replaced = None
        if self._key[:2] == (cluster, group_kind):
            replaced = self._store.get(*self._key)
            yield self._document
        yield from (one for one in self._store.each(cluster, group_kind) if replaced is None or one is not replaced)

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster == self._key.cluster or self._store.knows(cluster)
