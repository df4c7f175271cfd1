"""One indexed, cluster-keyed, in-memory store.

The cluster is part of every key, never a filter after a look-up: what belongs to one kcp logical cluster cannot be
read while answering for another. Objects are replaced, never changed in place, so a reader may keep what it got for
as long as it likes and may use its identity to know whether it is still current.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSONObject
from app.model.kcp import cluster_of
from app.store.narrow import NARROW_KINDS, Narrow, Narrower

Stored = Any  # JSONObject for kinds the engines read whole, Narrow for the others


class ObjectKey(NamedTuple):
    """Where an object lives; ``cluster`` is ``""`` for a plain cluster, ``namespace`` ``""`` for cluster scope."""

    cluster: str
    group_kind: GroupKind
    namespace: str
    name: str


class Index(NamedTuple):
    """A secondary index over one kind.

    ``keys(cluster, object)`` says under which keys an object, as it is stored, is found. The store adds the cluster to
    each: an object of one cluster is never found, replaced or removed through that of another.
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

    def find(self, index: Index, cluster: str, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects of a cluster under ``key``, in the order of their names."""

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""

    def has(self, group_kind: GroupKind) -> bool:
        """Return whether there is any object of a kind, in any cluster."""


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
        # By cluster and kind, then by namespace, then by name: a question about one namespace must not go through all.
        self._objects: Final[dict[tuple[str, GroupKind], dict[str, dict[str, Stored]]]] = {}
        self._indexes: Final[dict[GroupKind, list[Index]]] = {}
        for index in indexes:
            self._indexes.setdefault(index.group_kind, []).append(index)
        self._narrower: Final = Narrower()
        self._entries: Final[dict[str, dict[tuple[str, Hashable], dict[tuple[str, str], Stored]]]] = {
            index.name: {} for of_kind in self._indexes.values() for index in of_kind
        }
        self._subscribers: Final[list[Subscriber]] = []
        self._sizes: Final[Counter[str]] = Counter()
        self._kinds: Final[Counter[GroupKind]] = Counter()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Have ``subscriber`` told of each change, after it; return what ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        namespaces = self._objects.get((cluster, group_kind))
        objects = None if namespaces is None else namespaces.get(namespace)
        return None if objects is None else objects.get(name)

    def find(self, index: Index, cluster: str, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects of a cluster under ``key`` of ``index``, in the order of their namespaces and names."""
        entry = self._entries[index.name].get((cluster, key))
        if not entry:
            return ()
        return tuple(entry.values()) if len(entry) == 1 else tuple(entry[name] for name in sorted(entry))

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster, in no particular order."""
        namespaces = self._objects.get((cluster, group_kind), {}).values()
        return chain.from_iterable(objects.values() for objects in namespaces)

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster in self._sizes

    def has(self, group_kind: GroupKind) -> bool:
        """Return whether there is any object of a kind, in any cluster."""
        return self._kinds[group_kind] > 0

    def keys(self, group_kind: GroupKind) -> Iterator[ObjectKey]:
        """Yield the keys of the objects of one kind, over all clusters."""
        for (cluster, stored_kind), namespaces in self._objects.items():
            if stored_kind == group_kind:
                for namespace, objects in namespaces.items():
                    for name in objects:
                        yield ObjectKey(cluster, group_kind, namespace, name)

    def keys_in(self, cluster: str, group_kind: GroupKind, namespace: str) -> list[ObjectKey]:
        """Return the keys of the objects of one kind in one namespace."""
        objects = self._objects.get((cluster, group_kind), {}).get(namespace, {})
        return [ObjectKey(cluster, group_kind, namespace, name) for name in objects]

    def index_keys(self, index: Index) -> Iterator[Hashable]:
        """Yield the keys under which ``index`` has any object, of all clusters."""
        return (key for _, key in self._entries[index.name])

    def put(self, document: JSONObject) -> None:
        """Store ``document`` under its key, replacing what was there; the caller must not change it afterwards.

        What is equal already stays the same object, so that nothing has to be compiled anew for a repetition. So do
        equal members of an object that changes: a plan that was compiled from a spec does not keep a second copy of it.
        """
        key = key_of(document)
        before = self.get(*key)
        if key.group_kind not in NARROW_KINDS and before is not None:
            document = _with_known_members(document, before)
        kept: JSONObject | Narrow = self._narrower.narrow(document) if key.group_kind in NARROW_KINDS else document
        if before == kept:
            return
        if before is None:
            self._sizes[key.cluster] += 1
            self._kinds[key.group_kind] += 1
        self._objects.setdefault(key[:2], {}).setdefault(key.namespace, {})[key.name] = kept
        self._enter(key, before, kept)
        for subscriber in self._subscribers:
            subscriber(key, before, document)

    def remove(self, key: ObjectKey) -> None:
        """Forget the object under ``key``, if there is one."""
        before = self._forget(key)
        if before is not None:
            for subscriber in self._subscribers:
                subscriber(key, before, None)

    def drain(self) -> list[Stored]:
        """Forget all objects without telling anybody of it, and return them.

        The former leader's store is in a cycle of references, and `app.lifetime.pause_garbage_collector` exempted it
        from collection.
        """
        drained = [
            stored for kinds in self._objects.values() for objects in kinds.values() for stored in objects.values()
        ]
        for entries in self._entries.values():
            entries.clear()
        self._objects.clear()
        self._sizes.clear()
        return drained

    def _forget(self, key: ObjectKey) -> Stored | None:
        namespaces = self._objects.get(key[:2], {})
        objects = namespaces.get(key.namespace, {})
        document = objects.pop(key.name, None)
        if document is None:
            return None
        if not objects:
            del namespaces[key.namespace]
        self._sizes[key.cluster] -= 1
        if not self._sizes[key.cluster]:
            del self._sizes[key.cluster]
        self._kinds[key.group_kind] -= 1
        self._enter(key, document, None)
        return document

    def _enter(self, key: ObjectKey, before: Stored | None, after: Stored | None) -> None:
        """Bring the indexes from an object to the one that replaces it; None stands for no object."""
        cluster, place = key.cluster, key[2:]
        for index in self._indexes.get(key.group_kind, ()):
            entries = self._entries[index.name]
            now = [] if after is None else list(index.keys(cluster, after))
            former = [] if before is None else list(index.keys(cluster, before))
            # As a rule they are the same, and the object takes the place of the former one.
            for index_key in () if former == now else set(former).difference(now):
                entry = entries.get((cluster, index_key), {})
                entry.pop(place, None)
                if not entry:
                    entries.pop((cluster, index_key), None)
            for index_key in now:
                entries.setdefault((cluster, index_key), {})[place] = after

    def counts(self) -> dict[GroupKind, int]:
        """Return how many objects of each kind are stored, over all clusters."""
        totals: dict[GroupKind, int] = {}
        for (_, group_kind), namespaces in self._objects.items():
            totals[group_kind] = totals.get(group_kind, 0) + sum(map(len, namespaces.values()))
        return totals


def _with_known_members(document: JSONObject, before: JSONObject) -> JSONObject:
    """Return ``document`` with the former objects in place of equal members."""
    return {name: before[name] if before.get(name) == value else value for name, value in document.items()}
