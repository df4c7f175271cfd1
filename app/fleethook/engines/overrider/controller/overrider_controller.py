"""The controller for YurtAppOverriders: it keeps every workload rendered as its overrider requests.

OpenYurt has a controller of the same purpose (v1.4, pkg/yurtmanager/controller/yurtappoverrider). This one is
level-triggered: its actions depend on the present objects only, not on the order or number of former events.

An annotation of each workload has the hash of its last render. If the hash differs from that of the plan, the
controller writes the trigger annotation, kube-apiserver calls the webhook, which renders the workload and removes the
trigger, and the controller compares the answer. A touch of a workload that needs no change therefore changes only
`managedFields`.
The controller watches workloads to find edits, and compares all of them regularly to find changes that it did not
observe.

The controller reconciles a subject when one of its inputs changes: an overrider, the subject, a node pool, or a
workload that another client changed. Its own write is no drift. The hash that the write changes queues the subject
once more, half a second later, for the status. `Backoff` bounds the writes of each workload.

If a kind cannot be listed, only the subjects that depend on it wait. Missing objects would look deleted, so their
workloads do not change until the kind is read. Without the overriders, the controller does nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.registration.webhook_configurations import CONFIGURATION_NAME
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.controller.affected_subjects import EventHandlers, InputKinds
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import MUTATING_CONFIGURATION
from fleethook.engines.overrider.controller.openyurt_waits_and_nudges import OWNER_SECONDS, OwnerWaits
from fleethook.engines.overrider.controller.status_and_events import StatusReporter, SubjectFacts
from fleethook.engines.overrider.controller.subject_convergence import Converger
from fleethook.engines.overrider.controller.subject_state import SubjectState, collect_state
from fleethook.engines.overrider.controller.workload_decision import Result
from fleethook.engines.overrider.controller.workload_watch import WorkloadEvent, Workloads
from fleethook.engines.overrider.controller.workload_writes_and_retries import (
    WRITES_PER_SECOND,
    Backoff,
    RequiredVersions,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache, same_input
from fleethook.engines.overrider.subject.bound_overriders import overriders_of, read_overriders
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.gvk import DEFINITION
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.work.queue import Again, LoopScheduler, Outcome, Scheduler, WorkQueue
from fleethook.work.threads_and_gc import Worker

_log: Final = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 600.0
"""Between two comparisons of all workloads."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_NEVER: Final = float("inf")


class OverriderController:
    """Keeps workloads and the status of overriders up to date. Only the leader runs it.

    Attributes:
        queue: The subjects to reconcile.
        workloads: The workloads, with the results of former comparisons.
        handlers: Queues the subjects.
        reconciled: The number of reconciliations of subjects.
    """

    def __init__(  # noqa: PLR0913 - each dependency of the controller, by name
        self,
        connection: Connection,
        objects: Store,
        source: KubernetesSource,
        plans: PlanCache,
        *,
        per_second: float = WRITES_PER_SECOND,
        owner_seconds: float = OWNER_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        registered: Callable[[], Awaitable[object]] | None = None,
        openyurt_conflict: Callable[[], str] = lambda: "",
        worker: Worker | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            objects: The overriders, subjects and node pools, kept up to date by ``source``.
            source: Watches these objects and updates ``objects``.
            plans: The plans that were compiled from the objects.
            per_second: Touches per second on average.
            owner_seconds: The time for a subject's controller, in addition to that for its writes.
            now: Returns the time.
            registered: Waits until the webhooks are registered. None if another process registers them.
            openyurt_conflict: Returns the reason why OpenYurt's own rendering interferes, ``""`` if it does not.
            worker: Compiles large plans in a thread. None creates one.
            scheduler: The clock and timers. None for the running event loop.
        """
        clock = scheduler or LoopScheduler()
        self.queue: Final[WorkQueue[Binding]] = WorkQueue(
            backoff=(_FIRST_PAUSE_SECONDS, RESYNC_SECONDS), scheduler=clock
        )
        self.workloads: Final = Workloads(
            connection,
            objects,
            plans,
            per_second=per_second,
            every_cluster=source.every_cluster,
            now=now,
            scheduler=clock,
        )
        self.reconciled = 0
        self._kinds: Final = InputKinds(source, objects)
        self._objects: Final = objects
        self._source: Final = source
        self._registered: Final = registered
        self._register_seconds: Final = owner_seconds
        self._openyurt_conflict: Final = openyurt_conflict
        self._conflict = ""  # At the last report.
        self._clock: Final = clock
        self._backoff: Final = Backoff(longest=RESYNC_SECONDS)
        self._converger: Final = Converger(
            self.workloads, self._backoff, store=objects, plans=plans, worker=worker or Worker(), time=clock.time
        )
        self._reporter: Final = StatusReporter(connection, source, objects, now=now)
        self._waits: Final = OwnerWaits(
            connection, source, self._reporter, seconds=owner_seconds, interval=RESYNC_SECONDS, time=clock.time, now=now
        )
        self.handlers: Final = EventHandlers(self.queue, self._kinds, objects, self.workloads, clock)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._conflict = self._openyurt_conflict()
        endings = [
            self._objects.subscribe(self.handlers.object_changed),
            self._objects.subscribe(self._surroundings_changed),
            self.workloads.subscribe(self._workload_changed),
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.workloads.source.run(), name="workloads")
                await self.workloads.source.wait_tried()
                await self._kinds.wait_for_overriders()
                await self.workloads.source.wait_synced()
                await self._wait_for_registration()
                for kind in self._kinds.note():
                    tasks.create_task(self.handlers.queue_when_read(kind), name=f"first read of {kind.kind}")
                for binding in self.handlers.bindings():
                    self.queue.add(binding)
                tasks.create_task(self.queue.run(self.reconcile), name="overriders")
                tasks.create_task(self.handlers.resync(RESYNC_SECONDS, self._prune), name="resync")
        finally:
            for end in endings:
                end()
            # If this replica leads again, it must not hold the workloads twice.
            self.workloads.release()

    def _surroundings_changed(self, key: ObjectKey, before: Stored | None, _after: JSONObject | None) -> None:
        """Request lost values again if another webhook changes, and report OpenYurt's settings if they change."""
        if key.group_kind == MUTATING_CONFIGURATION and key.name != CONFIGURATION_NAME and before is not None:
            for binding in self.workloads.drifts.recheck_lost(self.workloads.subject_of):
                self.queue.add(binding)
        if key.group_kind in (MUTATING_CONFIGURATION, DEFINITION) and self._conflict != self._openyurt_conflict():
            self._conflict = self._openyurt_conflict()
            self._reporter.forget()
            for binding in self.handlers.bindings():
                self.queue.add(binding)

    async def _wait_for_registration(self) -> None:
        """Wait until the webhook is registered. Before that, touching a workload has no effect."""
        if self._registered is None:
            return
        try:
            async with asyncio.timeout(self._register_seconds):
                await self._registered()
        except TimeoutError:
            _log.warning("webhooks not registered within %.0f s: comparing workloads anyway", self._register_seconds)

    def _prune(self, bindings: set[Binding]) -> None:
        self._backoff.prune(self._clock.time())
        self._waits.keep(bindings)

    def _workload_changed(self, change: WorkloadEvent) -> None:
        if change.gone:
            self._backoff.forget(change.key)
        self.handlers.workload_changed(change)

    async def reconcile(self, binding: Binding) -> Outcome:
        """Render the workloads of a subject as its overrider requests, and write the status of its overriders.

        Returns:
            True if nothing is left to do until an input changes. False if the status could not be written; the queue
            then tries again after growing pauses. Otherwise, the seconds until the next reconciliation: of the pauses
            of `Backoff` and of the waits for OpenYurt, the one that ends first.
        """
        if not self._kinds.were_read(binding):
            return True  # `EventHandlers.queue_when_read` queues it again.
        self.reconciled += 1
        at = await self._observe(binding)
        await self._waits.nudge_late_owner(at)
        waits = self._waits.owner_writes_first(at)
        targets, known = await self._converger.find_targets(at, waits=waits)
        # Before its last write failed, the workload's inputs were read, so a retry does not read them again.
        now = self._clock.time()
        is_new = any(not self._backoff.problem(target.key, target.plan.digest, now) for target in targets)
        if is_new and await self._refresh(at):
            at = await self._observe(binding)
            targets, known = await self._converger.find_targets(at, waits=waits)
        results = [*known, *await self._converger.converge_all(targets, self._required_versions(at))]
        self._waits.note(binding, waiting=any(result.waits for result in results))
        facts = SubjectFacts(
            late=self._waits.is_late(at),
            orphans=self._waits.find_orphans(at),
            conflict=self._openyurt_conflict(),
            gone=self.handlers.gone.get(binding),
            compared=self.handlers.resyncs > 0,
        )
        reported = await self._reporter.report_subject(at, results, facts, find_workload=self.workloads.get)
        if not any(result.error for result in results):
            self.handlers.gone.pop(binding, None)
        return self._next_reconcile(at, results) if reported else False

    async def _observe(self, binding: Binding) -> SubjectState:
        return await collect_state(binding, store=self._objects, workloads=self.workloads)

    async def _refresh(self, at: SubjectState) -> bool:
        """Read subject and overriders from the apiserver; return whether they differ from those in the store.

        The event of a workload can arrive before the event of its subject: another replica has rendered the workload
        from a newer subject. If the controller touched it now, the webhook would render it from the older subject.
        """
        cluster, kind, namespace, name = at.binding
        try:
            await self._source.read_one(kind, cluster=cluster, namespace=namespace, name=name)
            await read_overriders(at.binding, store=self._objects, live=self._source)
        except (APIError, UnreachableError) as error:
            _log.warning(
                "cannot read %s before its workloads are written, using the watched version: %s", at.name, error
            )
            return False
        now = overriders_of(self._objects, at.binding)
        return not (
            same_input(at.subject, self._objects.get(*at.binding))
            and len(now) == len(at.overriders)
            and all(map(same_input, at.overriders, now))
        )

    def _required_versions(self, at: SubjectState) -> RequiredVersions:
        """Return the versions of the inputs that were seen, so that no replica renders from older ones."""
        overrider = _version(at.effective) or str(self._source.informer(YURT_APP_OVERRIDER).progress.changed)
        return RequiredVersions(overrider, _version(at.subject))

    def _next_reconcile(self, at: SubjectState, results: Sequence[Result]) -> Outcome:
        """Return the time of the next reconciliation if no input changes."""
        now = self._clock.time()
        retry = min((result.again for result in results if result.again is not None), default=_NEVER)
        wait = self._waits.next_time(at)
        if retry == wait == _NEVER:
            return True
        return Again(max(0.0, min(retry, wait) - now), retry=retry < wait)


def _version(document: JSONObject | None) -> str:
    return "" if document is None else str(document["metadata"].get("resourceVersion") or "")
