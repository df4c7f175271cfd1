"""One indexed in-memory store for the objects of all clusters, and the interface of the sources that feed it.

The cluster is part of every key, not a filter after a look-up: a request for one kcp logical cluster cannot read the
objects of another. Objects are replaced, never changed in place. A reader may therefore keep an object, and compare its
identity to find out whether it is still current.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS, PartialBuilder, PartialObject, PartState
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.kcp import cluster_of

Stored = Any  # PartialObject for `PARTIAL_KINDS`, JSONObject for all other kinds


class ObjectKey(NamedTuple):
    """Identifies an object; ``cluster`` is ``""`` outside kcp, ``namespace`` is ``""`` for cluster-scoped objects."""

    cluster: str
    group_kind: GroupKind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """``NAMESPACE/NAME``, or the name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def text(self) -> str:
        """The kind, the path and the logical cluster, as findings begin."""
        return f"{self.group_kind.kind} {self.path}{f' of {self.cluster}' if self.cluster else ''}"


class Index(NamedTuple):
    """A secondary index over one kind.

    ``keys(cluster, object)`` returns the index keys of a stored object. The store adds the cluster to each key, so that
    no look-up in one cluster finds, replaces or removes an object of another.
    """

    name: str
    group_kind: GroupKind
    keys: Callable[[str, Stored], Iterable[Hashable]]


Subscriber = Callable[[ObjectKey, Stored | None, JSONObject | None], None]
"""Called after a change with the key, the former stored object, and the new complete object, None for a removal."""


class StoreView(Protocol):
    """The read-only view of the store, for engines."""

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
    """Return the key of ``document``; its cluster is its ``kcp.io/cluster`` annotation, else ``""``."""
    group, _ = parse_api_version(document["apiVersion"])
    metadata = document["metadata"]
    return ObjectKey(
        cluster_of(document), GroupKind(group, document["kind"]), metadata.get("namespace") or "", metadata["name"]
    )


class Store:
    """The objects of all clusters, by key and by the indexes given at construction."""

    def __init__(self, indexes: Iterable[Index] = ()) -> None:
        # By cluster and kind, then namespace, then name: listing one namespace must not visit all others.
        self._objects: Final[dict[tuple[str, GroupKind], dict[str, dict[str, Stored]]]] = {}
        self._indexes: Final[dict[GroupKind, list[Index]]] = {}
        for index in indexes:
            self._indexes.setdefault(index.group_kind, []).append(index)
        self._partials: Final = PartialBuilder()
        self._entries: Final[dict[str, dict[tuple[str, Hashable], dict[tuple[str, str], Stored]]]] = {
            index.name: {} for of_kind in self._indexes.values() for index in of_kind
        }
        self._subscribers: Final[list[Subscriber]] = []
        self._sizes: Final[Counter[str]] = Counter()
        self._kinds: Final[Counter[GroupKind]] = Counter()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` after each change; return a function that ends the subscription."""
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

    def namespaces(self, group_kind: GroupKind) -> list[tuple[str, str]]:
        """Return each cluster and namespace that has an object of one kind."""
        return [
            (cluster, namespace)
            for (cluster, stored_kind), namespaces in self._objects.items()
            if stored_kind == group_kind
            for namespace in namespaces
        ]

    def names_in(self, cluster: str, group_kind: GroupKind, namespace: str) -> list[str]:
        """Return the names of the objects of one kind in one namespace."""
        return list(self._objects.get((cluster, group_kind), {}).get(namespace, ()))

    def index_keys(self, index: Index) -> Iterator[Hashable]:
        """Yield the keys under which ``index`` has any object, of all clusters."""
        return (key for _, key in self._entries[index.name])

    def put(self, document: JSONObject) -> None:
        """Store ``document`` under its key, replacing the former object; the caller must not change it afterwards.

        If the former object is equal, it stays, so that engines need not compile it again. Equal members of a changed
        object stay as well: a plan that was compiled from a spec keeps no second copy of it.
        """
        key = key_of(document)
        before = self.get(*key)
        if key.group_kind not in PARTIAL_KINDS and before is not None:
            document = _reuse_members(document, before)
        kept: JSONObject | PartialObject = (
            self._partials.build(document) if key.group_kind in PARTIAL_KINDS else document
        )
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
        """Remove the object under ``key``, if there is one."""
        before = self._remove(key)
        if before is not None:
            for subscriber in self._subscribers:
                subscriber(key, before, None)

    def copy(self, kinds: Collection[GroupKind]) -> "Store":
        """Return a store with the present objects of some kinds and the same indexes, to be read in another thread.

        It knows the same clusters and kinds as this one, also those of objects that it lacks. It has no subscribers.
        """
        indexes = [index for kind in kinds for index in self._indexes.get(kind, ())]
        copied = Store(indexes)
        for (cluster, kind), namespaces in self._objects.items():
            if kind in kinds:
                copied._objects[cluster, kind] = {name: dict(objects) for name, objects in namespaces.items()}
        for index in indexes:
            copied._entries[index.name] = {key: dict(entry) for key, entry in self._entries[index.name].items()}
        copied._sizes.update(self._sizes)
        copied._kinds.update(self._kinds)
        return copied

    def clear(self) -> None:
        """Forget all objects, without calling subscribers.

        The store of a former leader is in a reference cycle, and `fleethook.work.threads_and_gc` hid it from the
        garbage collector.
        """
        for entries in self._entries.values():
            entries.clear()
        self._objects.clear()
        self._sizes.clear()
        self._kinds.clear()

    def _remove(self, key: ObjectKey) -> Stored | None:
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
        return dict(self._kinds)


def _reuse_members(document: JSONObject, before: JSONObject) -> JSONObject:
    """Return ``document`` with equal members replaced by those of the former object."""
    return {name: before[name] if before.get(name) == value else value for name, value in document.items()}


class Source(Protocol):
    """Keeps a store equal to an outside system."""

    @property
    def synced(self) -> bool:
        """Whether every part has been read once."""

    def parts(self) -> Iterator[PartState]:
        """Yield the state of every part."""
