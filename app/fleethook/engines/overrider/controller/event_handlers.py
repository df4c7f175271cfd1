"""Event handlers: they queue the subjects that a changed object affects."""

from typing import Final

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.controller.subject_state import find_overriders
from fleethook.engines.overrider.controller.workloads import Change, Workloads
from fleethook.engines.overrider.openyurt.owner_waits import OwnerWaits
from fleethook.engines.overrider.subject.binding import Binding, find_binding
from fleethook.engines.overrider.subject.subject_parts import depends_on_node_pools, same_input
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.work.queue import WorkQueue
from fleethook.work.scheduler import Scheduler

# OpenYurt's controller writes a changed template to every workload, and admission renders these writes. After this time
# they are usually complete.
_SETTLE_SECONDS: Final = 5.0
# Many workloads change at a time. The pause lets one status update cover them.
_COALESCE_SECONDS: Final = 0.5
_INPUTS: Final = SUBJECT_KINDS | {YURT_APP_OVERRIDER, NODE_POOL}


class EventHandlers:
    """Queues a subject when its overrider, the subject, its node pools, or its workloads change.

    Attributes:
        gone: Deleted overriders by subject, so that events can refer to them.
    """

    def __init__(
        self,
        queue: WorkQueue[Binding],
        objects: Store,
        workloads: Workloads,
        waits: OwnerWaits,
        *,
        scheduler: Scheduler,
    ) -> None:
        """Prepare.

        Args:
            queue: The queue of subjects.
            objects: Overriders, subjects and node pools.
            workloads: The workloads.
            waits: Restarts the wait for a subject's controller after a change of its spec.
            scheduler: The clock.
        """
        self.gone: Final[dict[Binding, JSONObject]] = {}
        self._queue: Final = queue
        self._objects: Final = objects
        self._workloads: Final = workloads
        self._waits: Final = waits
        self._scheduler: Final = scheduler
        self._node_pools_due = False

    def bindings(self) -> set[Binding]:
        """Return every subject that has or had an overrider."""
        overriders = ((key.cluster, self._objects.get(*key)) for key in self._objects.keys(YURT_APP_OVERRIDER))
        named = {find_binding(cluster, overrider) for cluster, overrider in overriders if overrider is not None}
        return {*self._workloads.rendered_bindings(), *(binding for binding in named if binding is not None)}

    def object_changed(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        """Handle a change of an overrider, subject or node pool."""
        if key.group_kind not in _INPUTS or same_input(before, after):
            return
        if key.group_kind == YURT_APP_OVERRIDER:
            self._overrider_changed(key.cluster, before, after)
        elif key.group_kind in SUBJECT_KINDS:
            self._subject_changed(key, before, after)
        elif not self._node_pools_due:
            # Many node pools change at a time, and each may affect every subject, so one pass covers all changes.
            self._node_pools_due = True
            self._scheduler.call_at(self._scheduler.time() + _SETTLE_SECONDS, self._add_pool_subjects)

    def workload_changed(self, change: Change) -> None:
        """Handle a change of a workload."""
        if change.drifted:
            self._queue.add(change.binding)
        elif change.other_hash and (change.rendered or find_overriders(self._objects, change.binding)):
            self._queue.add_after(change.binding, _COALESCE_SECONDS)

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
        elif _has_same_spec(before, after):
            return  # Only metadata changed, for example by a nudge.
        else:
            self._queue.add_after(binding, _SETTLE_SECONDS)
        self._waits.restart(binding)

    def _add_pool_subjects(self) -> None:
        self._node_pools_due = False
        for binding in self.bindings():
            subject = self._objects.get(*binding)
            if subject is not None and depends_on_node_pools(
                binding.group_kind, subject, find_overriders(self._objects, binding)
            ):
                self._queue.add(binding)


def _has_same_spec(before: JSONObject, after: JSONObject) -> bool:
    """Return whether a subject has the same uid, API version and spec as before."""
    same = all(before.get(name) == after.get(name) for name in ("apiVersion", "spec"))
    return same and _uid(before) == _uid(after)


def _uid(document: JSONObject) -> JSON:
    return document["metadata"].get("uid")
