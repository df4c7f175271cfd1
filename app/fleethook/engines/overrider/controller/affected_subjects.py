"""Queues the subjects that a changed object affects, queues all at intervals, and knows the kinds that were read."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.store import ObjectKey, Store, Stored, StoreView
from fleethook.engines.overrider.controller.workload_watch import WorkloadEvent, Workloads
from fleethook.engines.overrider.plan.plan_cache import same_input
from fleethook.engines.overrider.subject.bound_overriders import find_binding, overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import depends_on_node_pools, is_behind
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.work.queue import Scheduler, WorkQueue, sleep

_log: Final = logging.getLogger(__name__)

# After a failed comparison of all workloads.
_RETRY_SECONDS: Final = 10.0
_EVERY_KIND: Final = SUBJECT_KINDS | {NODE_POOL, YURT_APP_OVERRIDER}


def input_kinds(
    group_kind: GroupKind, subject: JSONObject | None, overriders: Iterable[JSONObject] = ()
) -> frozenset[GroupKind]:
    """Return the kinds that the workloads of a subject are rendered from.

    Args:
        group_kind: The subject's kind.
        subject: The subject as stored, None if the store does not hold it.
        overriders: The overriders of the subject.
    """
    node_pools = [NODE_POOL] if depends_on_node_pools(group_kind, subject or {}, overriders) else []
    return frozenset({YURT_APP_OVERRIDER, group_kind, *node_pools})


class InputKinds:
    """Keeps track of the kinds that were read, which decide the subjects that can be reconciled."""

    def __init__(self, source: KubernetesSource, store: StoreView) -> None:
        """Prepare.

        Args:
            source: Reads the kinds.
            store: The subjects.
        """
        self._source: Final = source
        self._store: Final = store
        self._read: Final[set[GroupKind]] = set()

    async def wait_for_overriders(self) -> None:
        """Wait until the overriders were read, and until each other kind was read or has failed once.

        Without the overriders, the controller would undo every override.
        """
        await self._source.wait_synced((YURT_APP_OVERRIDER,))
        await self._source.wait_tried(_EVERY_KIND)

    def note(self) -> frozenset[GroupKind]:
        """Record the kinds that were read until now, and return the others."""
        self._read.update(kind for kind in _EVERY_KIND if not self.problem(kind))
        return _EVERY_KIND - self._read

    def problem(self, kind: GroupKind) -> str:
        """Return the reason why a kind was not read, ``""`` if it was."""
        return self._source.missing((kind,))

    async def wait_for(self, kind: GroupKind) -> None:
        """Wait until a kind was read."""
        await self._source.wait_synced((kind,))

    def add(self, kind: GroupKind) -> None:
        """Record that a kind was read, after the comparisons without it were repeated."""
        self._read.add(kind)

    def were_read(self, binding: Binding) -> bool:
        """Return whether all kinds were read that a subject's workloads are rendered from."""
        return self._list_kinds(binding) <= self._read

    def dependents(self, kind: GroupKind, bindings: Iterable[Binding]) -> Iterator[Binding]:
        """Yield the subjects whose workloads are rendered from objects of a kind."""
        return (binding for binding in bindings if kind in self._list_kinds(binding))

    def _list_kinds(self, binding: Binding) -> frozenset[GroupKind]:
        return input_kinds(binding.group_kind, self._store.get(*binding), overriders_of(self._store, binding))


# OpenYurt's controller writes a changed template to every workload, and admission renders these writes. After this time
# they are usually complete.
_SETTLE_SECONDS: Final = 5.0
# Many workloads change at a time. The pause lets one status update cover them.
_COALESCE_SECONDS: Final = 0.5


class EventHandlers:
    """Queues a subject when its overrider, the subject, its node pools, or its workloads change.

    Attributes:
        gone: Deleted overriders by subject, so that events can refer to them.
        resyncs: The number of complete comparisons of all workloads.
    """

    def __init__(
        self, queue: WorkQueue[Binding], kinds: InputKinds, objects: Store, workloads: Workloads, scheduler: Scheduler
    ) -> None:
        """Prepare.

        Args:
            queue: The queue of subjects.
            kinds: The kinds that were read.
            objects: Overriders, subjects and node pools.
            workloads: The workloads.
            scheduler: The clock.
        """
        self.gone: Final[dict[Binding, JSONObject]] = {}
        self.resyncs = 0
        self._queue: Final = queue
        self._kinds: Final = kinds
        self._objects: Final = objects
        self._workloads: Final = workloads
        self._scheduler: Final = scheduler
        self._node_pools_due = False

    def bindings(self) -> set[Binding]:
        """Return every subject that has or had an overrider."""
        overriders = ((key.cluster, self._objects.get(*key)) for key in self._objects.keys(YURT_APP_OVERRIDER))
        named = {find_binding(cluster, overrider) for cluster, overrider in overriders if overrider is not None}
        return {*self._workloads.rendered_bindings(), *(binding for binding in named if binding is not None)}

    def object_changed(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        """Handle a change of an overrider, subject or node pool."""
        if key.group_kind not in _EVERY_KIND:
            return
        if same_input(before, after):
            if key.group_kind in SUBJECT_KINDS and _has_caught_up(before, after):
                self._queue.add_after(key, _COALESCE_SECONDS)
            return
        if key.group_kind == YURT_APP_OVERRIDER:
            self._overrider_changed(key.cluster, before, after)
        elif key.group_kind in SUBJECT_KINDS:
            self._subject_changed(key, before, after)
        elif not self._node_pools_due:
            # Many node pools change at a time, and each may affect every subject, so one pass covers all changes.
            self._node_pools_due = True
            self._scheduler.call_at(self._scheduler.time() + _SETTLE_SECONDS, self._add_pool_subjects)

    def workload_changed(self, change: WorkloadEvent) -> None:
        """Handle a change of a workload."""
        if change.drifted:
            self._queue.add(change.binding)
        elif change.other_hash and (change.rendered or overriders_of(self._objects, change.binding)):
            self._queue.add_after(change.binding, _COALESCE_SECONDS)

    async def queue_when_read(self, kind: GroupKind) -> None:
        """Queue the subjects that depend on a kind as soon as it is read. Until then, their workloads do not change."""
        _log.warning(
            "leaving workloads of this kind's subjects unchanged until it can be read: %s", self._kinds.problem(kind)
        )
        await self._kinds.wait_for(kind)
        # Earlier comparisons of workloads did not know these objects.
        while not await self._compare_workloads():
            await sleep(self._scheduler, _RETRY_SECONDS)
        self._kinds.add(kind)
        for binding in self._kinds.dependents(kind, self.bindings()):
            self._queue.add(binding)

    async def resync(self, interval: float, prune: Callable[[set[Binding]], None]) -> None:
        """Compare all workloads, now and at intervals, and queue all subjects, whose status can be written then.

        Args:
            interval: Seconds between two comparisons.
            prune: Is called with the subjects, so that the controller forgets all others.
        """
        while True:
            pause = _RETRY_SECONDS
            if await self._compare_workloads():
                pause = interval
                prune(bindings := self.bindings())
                self.resyncs += 1
                for binding in bindings:
                    self._queue.add_retry(binding)
            await sleep(self._scheduler, pause)

    async def _compare_workloads(self) -> bool:
        """Compare all workloads with their plans; return False if they cannot be read."""
        try:
            async for _ in self._workloads.look_at_all():
                pass
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            _log.warning("cannot compare all workloads, retrying: %s", error)
            return False
        return True

    def _overrider_changed(self, cluster: str, before: JSONObject | None, after: JSONObject | None) -> None:
        for overrider in (before, after):
            binding = None if overrider is None else find_binding(cluster, overrider)
            if overrider is not None and binding is not None:
                if after is None:
                    self.gone[binding] = overrider
                self._queue.add(binding)

    def _subject_changed(self, binding: Binding, before: JSONObject | None, after: JSONObject | None) -> None:
        if before is None or after is None:
            self._queue.add(binding)
        elif not _has_same_spec(before, after):  # Otherwise only metadata changed, for example by a nudge.
            self._queue.add_after(binding, _SETTLE_SECONDS)

    def _add_pool_subjects(self) -> None:
        self._node_pools_due = False
        for binding in self.bindings():
            subject = self._objects.get(*binding)
            if subject is not None and depends_on_node_pools(
                binding.group_kind, subject, overriders_of(self._objects, binding)
            ):
                self._queue.add(binding)


def _has_caught_up(before: JSONObject | None, after: JSONObject | None) -> bool:
    """Return whether the status of a subject begins to report that its controller has written all workloads."""
    if before is None or after is None:
        return False
    return is_behind(before, lacks_pools=True) and not is_behind(after, lacks_pools=True)


def _has_same_spec(before: JSONObject, after: JSONObject) -> bool:
    """Return whether a subject has the same uid, API version and spec as before."""
    same = all(before.get(name) == after.get(name) for name in ("apiVersion", "spec"))
    return bool(same and before["metadata"].get("uid") == after["metadata"].get("uid"))
