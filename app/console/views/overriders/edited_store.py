"""A read-only view of a store in which one object is replaced or added, without a copy of the store."""

from collections.abc import Hashable, Iterator
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.store import Index, ObjectKey, StoreView
from app.store.store import Stored


class EditedStore:
    """The objects of a store with one object edited."""

    def __init__(self, base: StoreView, key: ObjectKey, document: JSONObject) -> None:
        """Put ``document`` in place of the object under ``key``, or add it. No partial kind can be edited."""
        self._base: Final = base
        self._key: Final = key
        self._document: Final = document

    @property
    def _former(self) -> Stored | None:
        return self._base.get(*self._key)

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        if (cluster, group_kind, namespace, name) == self._key:
            return self._document
        return self._base.get(cluster, group_kind, namespace, name)

    def find(self, index: Index, cluster: str, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects of a cluster under ``key``, in the order of their names."""
        found = self._base.find(index, cluster, key)
        if index.group_kind != self._key.group_kind or cluster != self._key.cluster:
            return found
        former = self._former
        kept = [one for one in found if one is not former]
        if key in index.keys(cluster, self._document):
            kept.append(self._document)
        return tuple(sorted(kept, key=_sort_key))

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""
        if (cluster, group_kind) != self._key[:2]:
            yield from self._base.each(cluster, group_kind)
            return
        former = self._former
        yield from (one for one in self._base.each(cluster, group_kind) if one is not former)
        yield self._document

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster == self._key.cluster or self._base.knows(cluster)

    def has(self, group_kind: GroupKind) -> bool:
        """Return whether there is any object of a kind, in any cluster."""
        return group_kind == self._key.group_kind or self._base.has(group_kind)


def _sort_key(document: JSONObject) -> tuple[str, str]:
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]
