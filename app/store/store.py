"""One indexed, cluster-keyed, in-memory store.

The cluster is part of every key, never a filter after a look-up: what belongs to one kcp logical cluster cannot be
read while answering for another. Objects are replaced, never changed in place, so a reader may keep what it got for
as long as it likes and may use its identity to know whether it is still current.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSONObject
from app.model.kcp import cluster_of
from app.store.narrow import NARROW_KINDS, Narrow, narrow

Stored = Any  # JSONObject for kinds the engines read whole, Narrow for the others


class ObjectKey(NamedTuple):
    """Where an object lives; ``cluster`` is ``""`` for a plain cluster, ``namespace`` ``""`` for cluster scope."""

    cluster: str
    group_kind: GroupKind
    namespace: str
    name: str


class Index(NamedTuple):
    """A secondary index over one kind.

    ``keys(cluster, object)`` says under which keys an object, as it is stored, is found; it must put the cluster into
    each key.
    """

    name: str
    group_kind: GroupKind
    keys: Callable[[str, Stored], Iterable[Hashable]]


Subscriber = Callable[[ObjectKey, Stored | None, JSONObject | None], None]
"""Told of a change: where, what was stored before, and the whole document that is put, None for a removal."""


class StoreView(Protocol):
    """What an engine may do with the store: read it."""

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""

    def find(self, index: Index, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects under ``key``, in the order of their names."""

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""


def key_of(document: JSONObject) -> ObjectKey:
    """Return where ``document`` is stored: its cluster is its ``kcp.io/cluster`` annotation, else ``""``."""
    group, _ = parse_api_version(document["apiVersion"])
    metadata = document["metadata"]
    return ObjectKey(
        cluster_of(document), GroupKind(group, document["kind"]), metadata.get("namespace") or "", metadata["name"]
    )


class Store:
    """The objects of all clusters, by key and by the indexes given at construction."""

    def __init__(self, indexes: Iterable[Index] = ()) -> None:
        self._objects: Final[dict[tuple[str, GroupKind], dict[tuple[str, str], Stored]]] = {}
        self._indexes: Final = tuple(indexes)
        self._entries: Final[dict[str, dict[Hashable, dict[tuple[str, str], Stored]]]] = {
            index.name: {} for index in self._indexes
        }
        self._subscribers: Final[list[Subscriber]] = []
        self._sizes: Final[Counter[str]] = Counter()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Have ``subscriber`` told of each change, after it; return what ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        kind = self._objects.get((cluster, group_kind))
        return None if kind is None else kind.get((namespace, name))

    def find(self, index: Index, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects under ``key`` of ``index``, in the order of their namespaces and names."""
        entry = self._entries[index.name].get(key)
        if not entry:
            return ()
        return tuple(entry.values()) if len(entry) == 1 else tuple(entry[name] for name in sorted(entry))

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster, in no particular order."""
        return iter(self._objects.get((cluster, group_kind), {}).values())

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster in self._sizes

    def keys(self, group_kind: GroupKind) -> Iterator[ObjectKey]:
        """Yield the keys of the objects of one kind, over all clusters."""
        for (cluster, stored_kind), objects in self._objects.items():
            if stored_kind == group_kind:
                for namespace, name in objects:
                    yield ObjectKey(cluster, group_kind, namespace, name)

    def keys_in(self, cluster: str, group_kind: GroupKind, namespace: str) -> list[ObjectKey]:
        """Return the keys of the objects of one kind in one namespace."""
        objects = self._objects.get((cluster, group_kind), {})
        return [ObjectKey(cluster, group_kind, *key) for key in objects if key[0] == namespace]

    def put(self, document: JSONObject) -> None:
        """Store ``document`` under its key, replacing what was there; the caller must not change it afterwards.

        What is equal already stays the same object, so that nothing has to be compiled anew for a repetition.
        """
        key = key_of(document)
        kept: JSONObject | Narrow = narrow(document) if key.group_kind in NARROW_KINDS else document
        before = self.get(*key)
        if before == kept:
            return
        self._forget(key)
        self._objects.setdefault(key[:2], {})[key[2:]] = kept
        self._sizes[key.cluster] += 1
        for index in self._indexes:
            if index.group_kind == key.group_kind:
                entries = self._entries[index.name]
                for index_key in index.keys(key.cluster, kept):
                    entries.setdefault(index_key, {})[key[2:]] = kept
        for subscriber in self._subscribers:
            subscriber(key, before, document)

    def remove(self, key: ObjectKey) -> None:
        """Forget the object under ``key``, if there is one."""
        before = self._forget(key)
        if before is not None:
            for subscriber in self._subscribers:
                subscriber(key, before, None)

    def _forget(self, key: ObjectKey) -> Stored | None:
        kind = self._objects.get(key[:2])
        document = kind.pop(key[2:], None) if kind else None
        if document is None:
            return None
        self._sizes[key.cluster] -= 1
        if not self._sizes[key.cluster]:
            del self._sizes[key.cluster]
        for index in self._indexes:
            if index.group_kind == key.group_kind:
                entries = self._entries[index.name]
                for index_key in index.keys(key.cluster, document):
                    entry = entries.get(index_key, {})
                    entry.pop(key[2:], None)
                    if not entry:
                        entries.pop(index_key, None)
        return document

    def counts(self) -> dict[GroupKind, int]:
        """Return how many objects of each kind are stored, over all clusters."""
        totals: dict[GroupKind, int] = {}
        for (_, group_kind), objects in self._objects.items():
            totals[group_kind] = totals.get(group_kind, 0) + len(objects)
        return totals
