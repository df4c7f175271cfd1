"""The workloads of node pools: followed, compared with what is wanted, and announced where somebody changed them."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from app.control.scheduler import Scheduler
from app.control.slices import Slices
from app.kube.connection import Connection
from app.model.json import JSONObject, as_object
from app.model.openyurt import TRIGGER_ANNOTATION
from app.overrider.binding import Binding
from app.overrider.bound_workloads import (
    OTHER_VERSION_INDEXES,
    RENDERED_INDEXES,
    WORKLOAD_INDEXES,
    binding_of,
    hash_of,
    pool_of,
)
from app.overrider.drift import NO_DRIFT, Drift, detect_drift
from app.overrider.orphans import ORPHAN_INDEXES, Orphan, former_bindings, orphan_keys_of
from app.overrider.plans import PlanCache
from app.overrider.remainders import Remainders
from app.overrider.workload_client import Limits, WorkloadClient, Written
from app.store import ObjectKey, Store, Stored, StoreView
from app.store.freeing import free_in_slices
from app.store.partial import PartialObject
from app.store.sources.kubernetes.resources import WORKLOADS
from app.store.sources.kubernetes.source import KubernetesSource


class Change(NamedTuple):
    """A workload that changed."""

    binding: Binding
    key: ObjectKey
    drifted: bool
    """Whether somebody made it other than it should be, in a way that was not known before."""
    rendered: bool
    """Whether it carries a hash, or did before."""
    other_hash: bool
    """Whether it is new, is gone, or carries another hash than before."""
    respecified: bool
    """Whether its spec is another one than before."""
    gone: bool


class _KnownDrift(NamedTuple):
    identity: str
    pointers: tuple[str, ...]


class Workloads:
    """What is known of the workloads.

    Attributes:
        source: What follows them.
        client: What asks the apiserver about them.
        remainders: What the apiserver does not store of their requests.
        failed: How often one was not brought to what it is to be.
    """

    def __init__(  # noqa: PLR0913 - all that it works with, by name
        self,
        connection: Connection,
        objects: StoreView,
        plans: PlanCache,
        *,
        slices: Slices,
        limits: Limits,
        absent_seconds: float,
        every_cluster: bool,
        now: Callable[[], datetime],
        scheduler: Scheduler | None = None,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            connection: To the apiserver.
            objects: Overriders, subjects and node pools.
            plans: What was compiled from them.
            slices: Whose turns it takes to read and compare workloads.
            limits: How fast workloads are touched.
            absent_seconds: How often to ask for a resource that is not served.
            every_cluster: Whether the server is kcp's, and all logical clusters are meant.
            now: The time.
            scheduler: The clock of the limits; None for the running event loop.
        """
        self.failed = 0
        self.remainders: Final = Remainders()
        self._objects: Final = objects
        self._plans: Final = plans
        indexes = (WORKLOAD_INDEXES, OTHER_VERSION_INDEXES, ORPHAN_INDEXES, RENDERED_INDEXES)
        self._store: Final = Store([index for of_kind in indexes for index in of_kind.values()])
        self.source: Final = KubernetesSource(
            WORKLOADS,
            connection,
            self._store,
            absent_seconds=absent_seconds,
            every_cluster=every_cluster,
            pause=slices.pause,
        )
        self.client: Final = WorkloadClient(
            connection, self.source, slices=slices, limits=limits, now=now, scheduler=scheduler
        )
        # The workload that was compared last, for the caller that compares it right after its change was announced.
        self._compared: tuple[JSONObject, Drift] | None = None
        # What the last look at a workload found wrong with it; a new look finds it again.
        self._drifts: Final[dict[ObjectKey, _KnownDrift]] = {}
        self._told: Final[list[Callable[[Change], None]]] = []
        self._store.subscribe(self._changed)

    @property
    def touched(self) -> int:
        """How many workloads were touched."""
        return self.client.touched

    def subscribe(self, told: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``told`` told of each change of a workload that an overrider can apply to; return what ends that."""
        self._told.append(told)
        return lambda: self._told.remove(told)

    def _changed(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        # Until all are read, nobody can look at any; then all subjects are looked at, and all workloads compared.
        if not self.source.synced:
            return
        kept: PartialObject | None = before if after is None else self.get(key)
        binding = None if kept is None else binding_of(kept, key.cluster)
        drifted = False
        respecified = before is None or kept is None or before.generation != kept.generation
        if after is None or binding is None:
            self._drifts.pop(key, None)
            self.remainders.forget(key)
        else:
            known = self._drifts.get(key)
            found = detect_drift(after, kind=key.group_kind.kind, store=self._objects, plans=self._plans)
            self._compared = (after, found)
            identity = self.note(key, found)
            news = identity != (known.identity if known else "") or respecified
            drifted = bool(identity) and news and not self._is_ours(key, before, after)
        for released in _released(key, before, None if after is None else kept, binding):
            self._tell(released)
        if binding is not None:
            hashes = {hash_of(one) for one in (before, kept) if one is not None}
            other = before is None or after is None or len(hashes) > 1
            self._tell(Change(binding, key, drifted, bool(hashes - {""}), other, respecified, gone=after is None))

    def _tell(self, change: Change) -> None:
        for told in self._told:
            told(change)

    def note(self, key: ObjectKey, found: Drift) -> str:
        """Remember what was found wrong with a workload, unless `remainders` explains it; return its identity."""
        identity = found.identity
        if not identity:
            self.remainders.forget(key)
        if not identity or self.remainders.explains(key, identity):
            self._drifts.pop(key, None)
            return ""
        self._drifts[key] = _KnownDrift(identity, found.pointers[:3])
        return identity

    def _is_ours(self, key: ObjectKey, before: PartialObject | None, after: JSONObject) -> bool:
        """Return whether a change is the write that this controller makes now.

        The event of a write may arrive before its answer. The write's trigger annotation is in no version before it.
        """
        ours = self.client.writing(key)
        return (
            ours is not None
            and as_object(after["metadata"].get("annotations")).get(TRIGGER_ANNOTATION) == ours
            and (before is None or before.annotations.get(TRIGGER_ANNOTATION) != ours)
        )

    # What is known.

    def get(self, key: ObjectKey) -> PartialObject | None:
        """Return what is kept of a workload."""
        kept: PartialObject | None = self._store.get(*key)
        return kept

    def drift(self, key: ObjectKey) -> tuple[str, ...] | None:
        """Return where a workload was found to be other than it should be; None if it was not."""
        drift = self._drifts.get(key)
        return None if drift is None else drift.pointers

    def of(self, binding: Binding) -> list[ObjectKey]:
        """Return the workloads of a subject."""
        return [
            ObjectKey(binding.cluster, index.group_kind, workload.namespace, workload.name)
            for index in WORKLOAD_INDEXES.values()
            for workload in self._store.find(index, binding.cluster, binding)
        ]

    def of_other_version(self, binding: Binding) -> set[str]:
        """Return the pools of a subject whose workloads it owns in a version to which overriders do not apply."""
        return {
            pool_of(workload)
            for index in OTHER_VERSION_INDEXES.values()
            for workload in self._store.find(index, binding.cluster, binding)
        }

    def orphans_of(self, binding: Binding, pools: Iterable[str]) -> tuple[Orphan, ...]:
        """Return the rendered workloads that a subject owned and nobody owns any more, by name.

        Args:
            binding: The subject.
            pools: Its node pools.
        """
        keys = list(orphan_keys_of(binding, pools))
        found = {
            Orphan(ObjectKey(binding.cluster, index.group_kind, workload.namespace, workload.name), pool_of(workload))
            for index in ORPHAN_INDEXES.values()
            for key in keys
            for workload in self._store.find(index, binding.cluster, key)
            if binding in former_bindings(binding.cluster, workload) or not key.subject
        }
        return tuple(sorted(found))

    def rendered_bindings(self) -> Iterator[Binding]:
        """Yield the subjects of workloads that were rendered."""
        for index in RENDERED_INDEXES.values():
            for binding in self._store.index_keys(index):
                assert isinstance(binding, ObjectKey)
                yield binding

    def detect_drift(self, key: ObjectKey, workload: JSONObject) -> Drift:
        """Return how a whole workload compares with what is wanted."""
        compared, self._compared = self._compared, None
        if compared is not None and compared[0] is workload:
            return compared[1]
        return detect_drift(workload, kind=key.group_kind.kind, store=self._objects, plans=self._plans)

    def detect_drift_after_write(self, key: ObjectKey, written: Written) -> tuple[JSONObject, Drift]:
        """Return a workload that was written, and how it compares with what is wanted.

        It is neither decoded nor compared where its event has been seen and is as wanted.
        """
        if written.document is None and key not in self._drifts and self.remainders.get(key) is None:
            return {}, NO_DRIFT
        document = self.client.decode(key, written)
        return document, self.detect_drift(key, document)

    def release(self) -> None:
        """Forget all workloads: nobody follows them any more, and they take most of a leader's memory."""
        self._told.clear()
        self._drifts.clear()
        free_in_slices(self._store.drain())

    def forget(self, key: ObjectKey) -> None:
        """Forget a workload that the apiserver does not have any more."""
        self._store.remove(key)

    async def look_at_all(self) -> AsyncIterator[tuple[ObjectKey, Binding, JSONObject]]:
        """Look at every workload that an overrider can apply to as the apiserver holds it; yield it with its subject.

        Raises APIError and UnreachableError.
        """
        async for key, document in self.client.read_all():
            kept = self.get(key)
            binding = None if kept is None else binding_of(kept, key.cluster)
            if kept is not None and binding is not None:
                # A version that the watch brought while the page was gone through has been compared already.
                if kept.resource_version == document["metadata"].get("resourceVersion", ""):
                    self.note(key, self.detect_drift(key, document))
                yield key, binding, document


def _released(
    key: ObjectKey, before: PartialObject | None, after: PartialObject | None, binding: Binding | None
) -> Iterator[Change]:
    """Yield what a change of a workload means for subjects that lost it, or lost it before.

    Args:
        key: The workload.
        before: As it was.
        after: As it is, None if it is gone.
        binding: The subject that owns it, or owned it last.
    """
    former = None if before is None else binding_of(before, key.cluster)
    left = {former} if former is not None and former != binding else set()
    for one in (before, after):
        left.update(former_bindings(key.cluster, one) if one is not None else ())
    for subject in sorted(left):
        # Only an overrider makes it worth a look: its status names the workload.
        yield Change(subject, key, drifted=False, rendered=False, other_hash=True, respecified=False, gone=True)
