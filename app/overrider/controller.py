"""The overrider controller (seed 004, "YurtAppOverrider Controller"): every workload as its overrider wants it.

Level-triggered: what has to be done is read off the objects each time, so it does not matter what happened before, how
often, in which order, or who was watching. A workload says by its annotation what it was rendered to; where that is not
what it is to be, the trigger annotation is touched, the apiserver asks the webhook, and the answer is looked at. What
somebody edits is seen by watching the workloads, what happened while nobody watched by going through all of them now
and then.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from app.control.conditions import said
from app.control.events import Recorder, Reference
from app.control.queue import WorkQueue
from app.kube.connection import MERGE_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.openyurt import API_VERSION, GROUP, NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER
from app.overrider.assess import Binding, hash_of, pool_of, wanted_hash
from app.overrider.binding import overriders_of, subject_of
from app.overrider.owner import SUBJECT_KINDS
from app.overrider.plans import PlanCache, same_input
from app.overrider.status import Result, bound, rendered, status_of
from app.overrider.steps import RenderError
from app.overrider.template import SubjectError
from app.overrider.workloads import Change, Limits, Workloads
from app.store import ObjectKey, Store, Stored
from app.store.sources.kubernetes.resources import YURT_APP_OVERRIDERS
from app.store.sources.kubernetes.source import KubernetesSource

_log: Final = logging.getLogger(__name__)

COMPONENT: Final = "fleethook-overrider"
RESYNC_SECONDS: Final = 600.0
# A changed template is rolled out by its own controller, which writes every workload and so has each rendered; what it
# has not written by then is touched.
_SETTLE_SECONDS: Final = 5.0
# Workloads come and go in numbers; the status is written once for many.
_COALESCE_SECONDS: Final = 0.5
_WORKERS: Final = 4
_INPUTS: Final = SUBJECT_KINDS | {YURT_APP_OVERRIDER, NODE_POOL}
_FIRST_PAUSE_SECONDS: Final = 1.0
_MOST_NAMED: Final = 5


class OverriderController:
    """Keeps workloads and the status of overriders up to date; run by the leader only.

    Attributes:
        queue: The subjects to look at.
        workloads: What is known of the workloads.
        reconciled: How often a subject was looked at.
    """

    def __init__(
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
        """
        self.queue: Final[WorkQueue[Binding]] = WorkQueue(backoff=(_FIRST_PAUSE_SECONDS, resync_seconds))
        self.workloads: Final = Workloads(
            connection,
            objects,
            plans,
            limits=limits,
            absent_seconds=absent_seconds,
            every_cluster=source.every_cluster,
            now=now,
        )
        self.reconciled = 0
        self._connection: Final = connection
        self._objects: Final = objects
        self._source: Final = source
        self._plans: Final = plans
        self._resync_seconds: Final = resync_seconds
        self._now: Final = now
        self._recorder: Final = Recorder(connection, component=COMPONENT, now=now)
        # Overriders that went, so that events can name them; of one that went earlier its subject is told.
        self._gone: Final[dict[Binding, JSONObject]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        endings = [self._objects.subscribe(self._object_changed), self.workloads.subscribe(self._workload_changed)]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.workloads.source.run(), name="workloads")
                await self._source.wait_synced()
                await self.workloads.source.wait_synced()
                self._add_all()
                tasks.create_task(self.queue.run(self.reconcile, workers=_WORKERS), name="overriders")
                tasks.create_task(self._resync(), name="resync")
        finally:
            for end in endings:
                end()

    async def _resync(self) -> None:
        """Go through everything now and again."""
        while True:
            try:
                await self.workloads.look_at_all()
                self._add_all()
                pause = self._resync_seconds
            except (APIError, UnreachableError, msgspec.DecodeError) as error:
                _log.warning("workloads were not gone through: %s", error)
                pause = min(self._resync_seconds, 10 * _FIRST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    # What to look at.

    def _add_all(self) -> None:
        for binding in self._bindings():
            self.queue.add(binding)

    def _bindings(self) -> set[Binding]:
        """Return every subject that has or had an overrider."""
        overriders = ((key.cluster, self._objects.get(*key)) for key in self._objects.keys(YURT_APP_OVERRIDER))
        bound = {_bound_to(cluster, overrider) for cluster, overrider in overriders if overrider is not None}
        return {*self.workloads.rendered_bindings(), *(binding for binding in bound if binding is not None)}

    def _object_changed(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        if key.group_kind not in _INPUTS or same_input(before, after):
            return
        if key.group_kind == YURT_APP_OVERRIDER:
            self._overrider_changed(key.cluster, before, after)
        elif key.group_kind in SUBJECT_KINDS:
            self.queue.add_after(key, 0.0 if before is None or after is None else _SETTLE_SECONDS)
        else:
            for binding in self._bindings():
                if binding.group_kind == YURT_APP_DAEMON and binding.cluster == key.cluster:
                    self.queue.add_after(binding, _SETTLE_SECONDS)

    def _overrider_changed(self, cluster: str, before: JSONObject | None, after: JSONObject | None) -> None:
        for overrider in (before, after):
            binding = None if overrider is None else _bound_to(cluster, overrider)
            if overrider is not None and binding is not None:
                if after is None:
                    self._gone[binding] = overrider
                self.queue.add(binding)

    def _workload_changed(self, change: Change) -> None:
        if change.suspect:
            self.queue.add(change.binding)
        elif change.other_hash and (change.rendered or self._overriders(change.binding)):
            self.queue.add_after(change.binding, _COALESCE_SECONDS)

    def _overriders(self, binding: Binding) -> tuple[JSONObject, ...]:
        cluster, group_kind, namespace, name = binding
        return overriders_of(self._objects, cluster=cluster, namespace=namespace, group_kind=group_kind, name=name)

    # What to do.

    async def reconcile(self, binding: Binding) -> bool:
        """Bring the workloads of a subject to what its overrider wants, and say so; return whether all are."""
        self.reconciled += 1
        overriders = self._overriders(binding)
        effective = overriders[0] if overriders else None
        brought = await asyncio.gather(*(self._bring(key, binding, effective) for key in self.workloads.of(binding)))
        results = [result for result, _ in brought if result is not None]
        reverted = [result for result, had in brought if result is not None and had and not result.counts]
        await self._tell_of_reverts(binding, effective, reverted)
        for overrider in overriders:
            await self._report(binding, overrider, overriders[0], results)
        all_are = not any(result.error for result in results)
        if all_are:
            self._gone.pop(binding, None)
        return all_are

    async def _bring(self, key: ObjectKey, binding: Binding, overrider: JSONObject | None) -> tuple[Result | None, str]:
        """Bring one workload to what it is to be; return how it stands then, and the hash that it had before."""
        workload = self.workloads.get(key)
        if workload is None or workload.deleting:
            return None, ""
        had, kind = hash_of(workload), key.group_kind.kind
        result = Result(pool_of(workload), kind, key.name, had, workload.generation, "")
        try:
            wanted = wanted_hash(workload, binding, overrider, kind=kind, store=self._objects, plans=self._plans)
        except SubjectError:
            return None, had  # Its owner is gone or has no such pool any more, and will see to it.
        except RenderError as error:
            return result._replace(error=str(error)), had
        if had == wanted and not self.workloads.suspect(key):
            return result, had
        problem = await self.workloads.bring(key, seen=self._seen(overrider), sure=had != wanted)
        after = self.workloads.get(key)
        if after is None:
            return None, had
        return result._replace(hash=wanted, generation=after.generation, error=problem), had

    def _seen(self, overrider: JSONObject | None) -> str:
        """Return the version that a replica must have seen to render what is wanted here."""
        if overrider is not None:
            return str(overrider["metadata"].get("resourceVersion") or "")
        return str(self._source.informer(YURT_APP_OVERRIDER).changed)

    # What to say.

    async def _report(
        self, binding: Binding, overrider: JSONObject, effective: JSONObject, results: Sequence[Result]
    ) -> None:
        is_bound = bound(overrider, binding, effective, subject=self._objects.get(*binding) is not None)
        of_this = results if overrider is effective else []
        findings = (is_bound, rendered(of_this))
        status = status_of(overrider, findings, of_this, now=self._now())
        former = as_object(overrider.get("status"))
        if status == former:
            return
        scope = self._source.scope(binding.cluster)
        path = scope + YURT_APP_OVERRIDERS.in_namespace(binding.namespace, overrider["metadata"]["name"])
        try:
            await self._connection.request("PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH)
        except (APIError, UnreachableError) as error:
            if not (isinstance(error, APIError) and error.code == 404):
                _log.warning("status of YurtAppOverrider %s was not written: %s", path, error)
            return
        for finding in findings:
            if said(former.get("conditions"), finding.type) != finding[1:]:
                level: Literal["Normal", "Warning"] = "Normal" if finding.status == "True" else "Warning"
                await self._recorder.record(_reference(overrider), level, finding.reason, finding.message, scope=scope)

    async def _tell_of_reverts(
        self, binding: Binding, overrider: JSONObject | None, reverted: Sequence[Result]
    ) -> None:
        about = overrider or self._gone.get(binding) or self._objects.get(*binding)
        if not reverted or about is None:
            return
        names = ", ".join(f"{result.workload} in {result.pool}" for result in reverted[:_MOST_NAMED])
        more = f" and {len(reverted) - _MOST_NAMED} more" if len(reverted) > _MOST_NAMED else ""
        message = f"went back to their template: {names}{more}"
        scope = self._source.scope(binding.cluster)
        await self._recorder.record(_reference(about), "Normal", "Reverted", message, scope=scope)


def _bound_to(cluster: str, overrider: JSONObject) -> Binding | None:
    subject = subject_of(overrider)
    if subject is None:
        return None
    kind, name = subject
    return Binding(cluster, GroupKind(GROUP, kind), overrider["metadata"].get("namespace") or "", name)


def _reference(document: JSONObject) -> Reference:
    metadata = document["metadata"]
    return Reference(
        document.get("apiVersion") or API_VERSION,
        document["kind"],
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
    )
