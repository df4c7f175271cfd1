"""Watches the workloads of node pools, compares them with their plans, and notifies subscribers of changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import WORKLOADS
from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import Index, ObjectKey, Store, Stored, StoreView
from fleethook.engines.overrider.controller.workload_decision import KnownDrifts
from fleethook.engines.overrider.controller.workload_writes_and_retries import WorkloadClient
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.stored_workload_comparison import Drift, detect_drift
from fleethook.engines.overrider.subject.workload_owner import (
    ORPHAN_INDEXES,
    OTHER_VERSION_INDEXES,
    RENDERED_INDEXES,
    WORKLOAD_INDEXES,
    Binding,
    Orphan,
    binding_of,
    former_bindings,
    hash_of,
    pool_of,
)
from fleethook.model.json import JSONObject
from fleethook.work.queue import Scheduler


class WorkloadEvent(NamedTuple):
    """A change of a workload."""

    binding: Binding
    key: ObjectKey
    drifted: bool
    """Whether the change caused a drift that was not known before."""
    rendered: bool
    """Whether the workload has or had the hash of a render."""
    other_hash: bool
    """Whether the workload was created or deleted, or its hash changed."""
    gone: bool


class Workloads:
    """The workloads of all subjects and their drifts.

    Attributes:
        source: The informers of workloads.
        client: Sends requests about workloads to the apiserver.
        drifts: Their drifts.
        failed: How often a workload could not be made to match its plan.
    """

    def __init__(
        self,
        connection: Connection,
        objects: StoreView,
        plans: PlanCache,
        *,
        per_second: float,
        every_cluster: bool,
        now: Callable[[], datetime],
        scheduler: Scheduler,
    ) -> None:
        """Create the informers without starting them.

        Args:
            connection: The connection to the apiserver.
            objects: Overriders, subjects and NodePools.
            plans: The plans compiled from them.
            per_second: Touches per second on average.
            every_cluster: Whether the server is a kcp, and workloads of all logical clusters are watched.
            now: Returns the time.
            scheduler: The clock of the touches.
        """
        self.failed = 0
        self.drifts: Final = KnownDrifts()
        self._objects: Final = objects
        self._plans: Final = plans
        indexes = (WORKLOAD_INDEXES, OTHER_VERSION_INDEXES, ORPHAN_INDEXES, RENDERED_INDEXES)
        self._store: Final = Store([index for of_kind in indexes for index in of_kind.values()])
        self.source: Final = KubernetesSource(
            WORKLOADS,
            connection,
            self._store,
            every_cluster=every_cluster,
            pause=partial(asyncio.sleep, 0),
        )
        self.client: Final = WorkloadClient(
            connection, self.source, per_second=per_second, now=now, scheduler=scheduler
        )
        self._subscribers: Final[list[Callable[[WorkloadEvent], None]]] = []
        self._store.subscribe(self._handle_change)

    def subscribe(self, notify: Callable[[WorkloadEvent], None]) -> Callable[[], None]:
        """Call ``notify`` for each change of a workload that an overrider can apply to; return the unsubscriber."""
        self._subscribers.append(notify)
        return lambda: self._subscribers.remove(notify)

    def _handle_change(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        # Comparisons start when all workloads are read. Then the controller compares all of them.
        if not self.source.synced:
            return
        kept: PartialObject | None = before if after is None else self.get(key)
        binding = None if kept is None else binding_of(kept, key.cluster)
        drifted = False
        if after is None or binding is None:
            self.drifts.forget(key)
        else:
            known = self.drifts.find(key)
            identity = self.drifts.note(key, self._detect_drift(key, after))
            is_new = before is None or kept is None or before.generation != kept.generation
            is_news = is_new or identity != (known.identity if known else "")
            # The event of a touch may arrive before its answer, which decides about its drift.
            drifted = bool(identity) and is_news and not self.client.is_writing(key)
        for released in _find_released(key, before, None if after is None else kept, binding):
            self._notify(released)
        if binding is not None:
            hashes = {hash_of(one) for one in (before, kept) if one is not None}
            other = before is None or after is None or len(hashes) > 1
            self._notify(WorkloadEvent(binding, key, drifted, bool(hashes - {""}), other, gone=after is None))

    def _notify(self, change: WorkloadEvent) -> None:
        for notify in self._subscribers:
            notify(change)

    def get(self, key: ObjectKey) -> PartialObject | None:
        """Return the stored part of a workload, None if it does not exist."""
        kept: PartialObject | None = self._store.get(*key)
        return kept

    def _find(self, indexes: Mapping[str, Index], binding: Binding) -> Iterator[tuple[ObjectKey, PartialObject]]:
        for index in indexes.values():
            for workload in self._store.find(index, binding.cluster, binding):
                yield ObjectKey(binding.cluster, index.group_kind, workload.namespace, workload.name), workload

    def of(self, binding: Binding) -> list[ObjectKey]:
        """Return the workloads of a subject."""
        return [key for key, _ in self._find(WORKLOAD_INDEXES, binding)]

    def of_other_version(self, binding: Binding) -> set[str]:
        """Return the pools of workloads whose owner reference has a version to which overriders do not apply."""
        return {pool_of(workload) for _, workload in self._find(OTHER_VERSION_INDEXES, binding)}

    def orphans_of(self, binding: Binding) -> tuple[Orphan, ...]:
        """Return the rendered workloads that a subject owned and that have no owner any more, by name."""
        return tuple(sorted(Orphan(key, pool_of(workload)) for key, workload in self._find(ORPHAN_INDEXES, binding)))

    def rendered_bindings(self) -> Iterator[Binding]:
        """Yield the subjects of workloads that were rendered."""
        for index in RENDERED_INDEXES.values():
            for binding in self._store.index_keys(index):
                assert isinstance(binding, ObjectKey)
                yield binding

    def compare(self, key: ObjectKey, document: JSONObject) -> Drift:
        """Compare a complete workload with its plan, and remember its drift if this version is stored."""
        found, kept = self._detect_drift(key, document), self.get(key)
        # Otherwise `_handle_change` has compared a newer version, which the watch delivered before this one arrived.
        if kept is not None and kept.resource_version == document["metadata"].get("resourceVersion", ""):
            self.drifts.note(key, found)
        return found

    def _detect_drift(self, key: ObjectKey, document: JSONObject) -> Drift:
        return detect_drift(document, kind=key.group_kind.kind, store=self._objects, plans=self._plans)

    def subject_of(self, key: ObjectKey) -> Binding | None:
        """Return the subject of a workload, None if the workload is gone or has none."""
        kept = self.get(key)
        return None if kept is None else binding_of(kept, key.cluster)

    def release(self) -> None:
        """Forget all workloads after the watch has ended: they take most of a leader's memory."""
        self._subscribers.clear()
        self.drifts.clear()
        self._store.clear()

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._store.remove(key)

    async def look_at_all(self) -> AsyncIterator[tuple[ObjectKey, Binding]]:
        """Read every workload that an overrider can apply to from the apiserver; yield it with its subject.

        Raises APIError and UnreachableError.
        """
        async for key, document in self.client.read_all():
            if (binding := self.subject_of(key)) is not None:
                self.compare(key, document)
                yield key, binding


def _find_released(
    key: ObjectKey, before: PartialObject | None, after: PartialObject | None, binding: Binding | None
) -> Iterator[WorkloadEvent]:
    """Yield a deletion for each subject that lost a workload with a change, or earlier.

    Args:
        key: The workload.
        before: The workload before the change, None if it was created.
        after: The workload after the change, None if it was deleted.
        binding: The subject that owns the workload, or owned it last.
    """
    former = None if before is None else binding_of(before, key.cluster)
    left = {former} if former is not None and former != binding else set()
    for partial_object in (before, after):
        left.update(former_bindings(key.cluster, partial_object) if partial_object is not None else ())
    for subject in sorted(left):
        # Only the overrider of such a subject needs a reconcile, because its status names the workload.
        yield WorkloadEvent(subject, key, drifted=False, rendered=False, other_hash=True, gone=True)
