"""The overrider controller (seed 004, "YurtAppOverrider Controller"): every workload as its overrider wants it.

Level-triggered: the objects say what has to be done, so it does not matter what happened before, how often, in which
order, or who was watching. A workload says by its annotation what it was rendered to; where that is not what it is to
be, the controller touches its trigger annotation, the apiserver asks the webhook, and the controller looks at the
answer. It sees edits by watching the workloads, and changes that nobody watched by going through all of them now and
then.

A subject is worked on when one of its inputs changed: overrider, subject, node pool, or a workload that somebody else
changed. The controller's own writes are no input. `Attempts` bounds the writes of each workload.

A kind that cannot be listed holds up its own subjects only. They are left as they are until the kind was read: objects
that the store does not hold would look deleted. Without the overriders, the controller does nothing at all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from app.control.conditions import Condition
from app.control.queue import Again, WorkQueue
from app.control.queue import Outcome as Worked
from app.control.scheduler import LoopScheduler, Scheduler, sleep
from app.control.slices import Pauses, Sliced, Slices
from app.kube.connection import Connection
from app.kube.errors import APIError, UnreachableError
from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.openyurt import YURT_APP_OVERRIDER
from app.overrider.assess import Binding, find_plan, hash_of, pool_of
from app.overrider.attempts import Attempts
from app.overrider.binding import select_overriders
from app.overrider.converge import Converger, Outcome, Target
from app.overrider.gaps import NO_GAPS, Gaps
from app.overrider.input_kinds import InputKinds
from app.overrider.inputs import Inputs
from app.overrider.laggards import Laggards
from app.overrider.nudge import Nudger
from app.overrider.owner_waits import OwnerWaits, Patience
from app.overrider.plans import PlanCache, same_input
from app.overrider.pool_template import SubjectError
from app.overrider.reports import Reporter
from app.overrider.situation import Situation, find_overriders, look_around
from app.overrider.status import Result, bound, conflicts, rendered, unrendered
from app.overrider.steps import RenderError
from app.overrider.workload_client import Limits, Seen
from app.overrider.workloads import Change, Workloads
from app.store import ObjectKey, Store
from app.store.sources.kubernetes.source import KubernetesSource

_log: Final = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 600.0
_WORKERS: Final = 8
# Second and later writes of a workload get a tenth of all writes, so that conflicts cost the others next to nothing.
_RETRY_SHARE: Final = 0.1
# How many workloads are asked about again at each resync although the apiserver did not keep their requests.
_MAX_RECHECKED: Final = 500
_FIRST_PAUSE_SECONDS: Final = 1.0
# To look at a workload that is as it should be takes some 30 µs.
_SLICE: Final = 8
# More of a subject's workloads than may be touched at a time, by any setting.
_MAX_BRINGING: Final = 100
_NEVER: Final = float("inf")


class _Brought(NamedTuple):
    """What came of bringing one workload to what it is to be."""

    result: Result
    had: str
    """The hash that it carried before."""
    again: float | None
    """When to try again; None if only a change is worth it."""


class OverriderController:
    """Keeps workloads and the status of overriders up to date; run by the leader only.

    Attributes:
        queue: The subjects to look at.
        workloads: What is known of the workloads.
        reconciled: How often a subject was looked at.
        resyncs: How often all workloads were gone through.
    """

    def __init__(  # noqa: PLR0913 - all that a controller works with, by name
        self,
        connection: Connection,
        objects: Store,
        source: KubernetesSource,
        plans: PlanCache,
        *,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        resync_seconds: float = RESYNC_SECONDS,
        absent_seconds: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        registered: Callable[[], Awaitable[object]] | None = None,
        openyurt_conflict: Callable[[], str] = lambda: "",
        slices: Slices | None = None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            objects: The overriders, subjects and node pools, kept up to date by ``source``.
            source: What keeps them.
            plans: What was compiled from them.
            limits: How fast workloads are touched.
            resync_seconds: Between two times that all workloads are gone through; the longest pause after failures.
            absent_seconds: How often to ask for a resource that is not served.
            now: The time.
            registered: Waits until the webhooks are registered; None if that is not this server's to do.
            openyurt_conflict: Returns why OpenYurt's own rendering disturbs this one, ``""`` if it does not.
            slices: Whose turns long looks take; None for turns of their own.
            reading: Held while all workloads are read for the first time.
            scheduler: The clock and timers; None for the running event loop.
        """
        clock = scheduler or LoopScheduler()
        self.queue: Final[WorkQueue[Binding]] = WorkQueue(
            backoff=(_FIRST_PAUSE_SECONDS, resync_seconds), scheduler=clock
        )
        self._slices: Final = slices or Slices()
        self.workloads: Final = Workloads(
            connection,
            objects,
            plans,
            slices=self._slices,
            limits=limits,
            absent_seconds=absent_seconds,
            every_cluster=source.every_cluster,
            now=now,
            scheduler=clock,
        )
        self.reconciled = 0
        self.resyncs = 0
        self._kinds: Final = InputKinds(source, objects)
        self._reading: Final = reading
        self._objects: Final = objects
        self._source: Final = source
        self._plans: Final = plans
        self._resync_seconds: Final = resync_seconds
        self._registered: Final = registered
        self._register_seconds: Final = limits.owner_seconds
        self._openyurt_conflict: Final = openyurt_conflict
        self._clock: Final = clock
        self._attempts: Final = Attempts(retries_per_second=limits.per_second * _RETRY_SHARE, longest=resync_seconds)
        self._converger: Final = Converger(self.workloads, self._attempts, time=clock.time)
        self._waits: Final = OwnerWaits(seconds=limits.owner_seconds, interval=resync_seconds, time=clock.time)
        self._reporter: Final = Reporter(connection, source, slices=self._slices, now=now)
        self._laggards: Final = Laggards(self.workloads, store=objects, plans=plans)
        self._nudger: Final = Nudger(connection, source, self._waits, self._laggards, self._reporter, now=now)
        self._inputs: Final = Inputs(self.queue, objects, self.workloads, self._waits, scheduler=clock)

    async def run(self) -> None:
        """Work until cancelled."""
        endings = [
            self._objects.subscribe(self._inputs.object_changed),
            self.workloads.subscribe(self._workload_changed),
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.workloads.source.run(), name="workloads")
                with self._reading():
                    await self.workloads.source.wait_tried()
                await self._kinds.wait_for_overriders()
                await self.workloads.source.wait_synced()
                await self._wait_for_registration()
                self._waits.start()
                for kind in self._kinds.note():
                    tasks.create_task(self._start_when_read(kind), name=f"first read of {kind.kind}")
                for binding in self._inputs.bindings():
                    self.queue.add(binding)
                tasks.create_task(self.queue.run(self.reconcile, workers=_WORKERS), name="overriders")
                tasks.create_task(self._resync(), name="resync")
        finally:
            for end in endings:
                end()
            # A replica may lead again, and must not hold the workloads twice then.
            self.workloads.release()

    async def _wait_for_registration(self) -> None:
        """Wait until the apiserver asks the webhook: to touch workloads before does nothing."""
        if self._registered is None:
            return
        try:
            async with asyncio.timeout(self._register_seconds):
                await self._registered()
        except TimeoutError:
            _log.warning("not registered within %.0f s; workloads are looked at all the same", self._register_seconds)

    async def _start_when_read(self, kind: GroupKind) -> None:
        """Have the subjects that depend on ``kind`` looked at as soon as it was read."""
        _log.warning("workloads that depend on it are left as they are: %s", self._kinds.problem(kind))
        await self._kinds.wait_for(kind)
        # Earlier comparisons of workloads were made without these objects.
        while await self._look_at_workloads() is None:
            await sleep(self._clock, self._retry_seconds)
        self._kinds.add(kind)
        for binding in self._kinds.dependents(kind, self._inputs.bindings()):
            self.queue.add(binding)

    async def _resync(self) -> None:
        """Go through everything now and again."""
        while True:
            pause = self._retry_seconds
            self.workloads.remainders.forget_lost(most=_MAX_RECHECKED)
            found = await self._look_at_workloads()
            if found is not None:
                pause = self._resync_seconds
                self._tidy(bindings := self._inputs.bindings())
                # At the start all of them are queued anyway, and have to be looked at again for news only.
                for binding in bindings if self.resyncs else bindings & found:
                    self.queue.add_retry(binding)
                self.resyncs += 1
            await sleep(self._clock, pause)

    async def _look_at_workloads(self) -> set[Binding] | None:
        """Compare all workloads with what they are to be.

        Returns:
            The subjects of workloads that differ or are behind; None if the workloads could not be read.
        """
        found: set[Binding] = set()
        try:
            async for key, binding, document in self.workloads.look_at_all():
                if self._laggards.look(key, document) or self.workloads.drift(key) is not None:
                    found.add(binding)
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            _log.warning("workloads were not gone through: %s", error)
            return None
        return found

    @property
    def _retry_seconds(self) -> float:
        return min(self._resync_seconds, 10 * _FIRST_PAUSE_SECONDS)

    def _tidy(self, bindings: set[Binding]) -> None:
        self._attempts.prune(self._clock.time())
        self._waits.keep(bindings)

    def _workload_changed(self, change: Change) -> None:
        if change.respecified or change.gone:
            self._laggards.changed(change.key, gone=change.gone)
        if change.gone:
            self._converger.forget(change.key)
        self._inputs.workload_changed(change)

    async def reconcile(self, binding: Binding) -> Worked:
        """Bring the workloads of a subject to what its overrider wants, and say how they stand.

        Returns:
            True if nothing is left to do until an input changes, False if the status could not be written, or when to
            look again.
        """
        if not self._kinds.were_read(binding):
            return True  # It is queued again when they were read.
        self.reconciled += 1
        at, patience = await self._look(binding)
        targets, known = await self._slices.run(self._aim_all(at, patience))
        # A write that failed before was made from what was read then; nobody has to be asked again for each repetition.
        if any(not self._attempts.problem(target.key) for target in targets) and await self._refresh(at):
            at, patience = await self._look(binding)
            targets, known = await self._slices.run(self._aim_all(at, patience))
        brought = [*known, *await self._bring_all(targets)]
        self._nudger.note(at, waits=any(one.result.waits for one in brought))
        await self._tell_of_reverts(at, brought)
        await self._tell_of_orphans(at)
        reported = await self._report(at, [one.result for one in brought])
        if not any(one.result.error for one in brought):
            self._inputs.gone.pop(binding, None)
        return self._next(at, brought) if reported else False

    async def _look(self, binding: Binding) -> tuple[Situation, Patience]:
        at = await self._slices.run(look_around(binding, store=self._objects, workloads=self.workloads))
        return at, await self._nudger.wait_for_owner(at)

    async def _refresh(self, at: Situation) -> bool:
        """Read subject and overriders from the apiserver; return whether they were other ones.

        A workload's event may be ahead of the watch of its subject: another replica has rendered it from a subject that
        is newer than the one here. To touch it now would have it rendered from the older one.
        """
        cluster, kind, namespace, name = at.binding
        try:
            await self._source.read_one(kind, cluster=cluster, namespace=namespace, name=name)
            await self._source.read_selected(select_overriders(namespace, kind.kind, name), cluster=cluster)
        except (APIError, UnreachableError) as error:
            _log.warning("%s was not read again, the watch has to do: %s", at.name, error)
            return False
        now = find_overriders(self._objects, at.binding)
        return not (
            same_input(at.subject, self._objects.get(*at.binding))
            and len(now) == len(at.overriders)
            and all(map(same_input, at.overriders, now))
        )

    def _aim_all(self, at: Situation, patience: Patience) -> Sliced[tuple[list[Target], list[_Brought]]]:
        """Return the workloads that have to be brought to what they are to be, and how the others stand."""
        seen = self._seen(at)
        targets: list[Target] = []
        known: list[_Brought] = []
        pauses = Pauses(_SLICE)
        for key in at.keys:
            yield from self._prepare(key, at)
            target = self._aim(key, at, seen, patience)
            if pauses.due():
                yield
            if isinstance(target, Target):
                outcome = self._converger.decide(target)
                if outcome is None:
                    targets.append(target)
                    continue
                target = self._brought(target, outcome)
            known += [] if target is None else [target]
        return targets, known

    def _prepare(self, key: ObjectKey, at: Situation) -> Sliced[None]:
        """Compile the plan of a workload, before anybody asks for it."""
        workload, binding = self.workloads.get(key), at.binding
        if workload is not None and at.subject is not None:
            yield from self._plans.prepare(
                binding.group_kind,
                at.subject,
                at.effective,
                kind=key.group_kind.kind,
                pool=pool_of(workload),
                cluster=binding.cluster,
                store=self._objects,
            )

    async def _bring_all(self, targets: Sequence[Target]) -> list[_Brought]:
        """Bring each of these workloads to what it is to be."""
        brought: list[_Brought | None] = [None] * len(targets)
        waiting = iter(enumerate(targets))

        async def bring() -> None:
            for number, target in waiting:
                brought[number] = await self._bring(target)

        # Not a task for each: to begin thousands would take a tenth of a second.
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(targets), _MAX_BRINGING)):
                tasks.create_task(bring())
        return [one for one in brought if one is not None]

    def _aim(self, key: ObjectKey, at: Situation, seen: Seen, patience: Patience) -> Target | _Brought | None:
        """Return what a workload is to become; why it cannot; or None if nothing is to be said about it."""
        workload, kind = self.workloads.get(key), key.group_kind.kind
        if workload is None or workload.deleting:
            return None
        had = hash_of(workload)
        try:
            plan = find_plan(workload, at.binding, at.effective, kind=kind, store=self._objects, plans=self._plans)
        except SubjectError:
            return None  # Its owner is gone or has no such pool any more, and will see to it.
        except RenderError as error:
            return _Brought(Result(pool_of(workload), kind, key.name, had, workload.generation, str(error)), had, None)
        return Target(key, at.binding, plan, had, seen, patience)

    async def _bring(self, target: Target) -> _Brought | None:
        return self._brought(target, await self._converger.bring(target))

    def _brought(self, target: Target, outcome: Outcome) -> _Brought | None:
        key, workload = target.key, self.workloads.get(target.key)
        if workload is None:
            return None
        result = Result(
            pool_of(workload),
            key.group_kind.kind,
            key.name,
            target.plan.digest,
            workload.generation,
            outcome.problem,
            outcome.waits,
            outcome.lost,
            outcome.notes,
        )
        return _Brought(result, target.had, outcome.again)

    def _seen(self, at: Situation) -> Seen:
        """Return the versions that a replica must have seen to render what is wanted here."""
        overrider = _version(at.effective) or str(self._source.informer(YURT_APP_OVERRIDER).changed)
        return Seen(overrider, _version(at.subject))

    def _next(self, at: Situation, brought: Sequence[_Brought]) -> Worked:
        """Return when to look again although nothing changes."""
        now = self._clock.time()
        retry = min((one.again for one in brought if one.again is not None), default=_NEVER)
        wait = self._nudger.next_look(at, waits=any(one.result.waits for one in brought))
        if retry == wait == _NEVER:
            return True
        return Again(max(0.0, min(retry, wait) - now), retry=retry < wait)

    async def _report(self, at: Situation, results: Sequence[Result]) -> bool:
        stored = True
        late, orphans = self._nudger.is_late(at), self._nudger.find_orphans(at)
        others = conflicts(self._openyurt_conflict())
        for overrider in at.overriders:
            is_bound = bound(overrider, at.binding, at.overriders[0], subject=at.subject is not None)
            of_this: Sequence[Result] = []
            gaps, found = NO_GAPS, unrendered(is_bound, () if at.subject else orphans)
            if is_bound.status == "True":
                of_this = results
                work = _describe(at, overrider, results, overdue=late, orphans=orphans)
                gaps, found = await self._slices.run(work)
            stored &= await self._reporter.report(at.binding, overrider, (is_bound, found, *others), of_this, gaps)
        return stored

    async def _tell_of_reverts(self, at: Situation, brought: Sequence[_Brought]) -> None:
        reverted = [one.result for one in brought if one.had and not one.result.counts]
        about = at.effective or self._inputs.gone.get(at.binding) or at.subject
        if reverted and about is not None:
            await self._reporter.tell_of_reverts(at.binding, about, reverted)

    async def _tell_of_orphans(self, at: Situation) -> None:
        """Name the workloads that keep the overrides of a deleted overrider.

        To take these back needs the template that they were rendered from (`app.overrider.undo` knows only the rest),
        and it is gone with the owner.
        """
        gone, orphans = self._inputs.gone.get(at.binding), self._nudger.find_orphans(at)
        if gone is not None and orphans and not at.overriders:
            await self._reporter.tell_of_orphans(at.binding, gone, orphans)


def _describe(
    at: Situation, overrider: JSONObject, results: Sequence[Result], *, overdue: bool, orphans: Sequence[str]
) -> Sliced[tuple[Gaps, Condition]]:
    """Return what an overrider in effect does not reach, and how its workloads stand."""
    gaps = at.gaps(overrider, overdue=overdue, orphans=orphans)
    yield
    found = rendered(results, gaps)
    yield
    return gaps, found


def _version(document: JSONObject | None) -> str:
    return "" if document is None else str(document["metadata"].get("resourceVersion") or "")
