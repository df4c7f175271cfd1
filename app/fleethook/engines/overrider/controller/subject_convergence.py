"""Converges workloads to the state that their overrider requests, with as few writes as possible.

It finds the workloads to touch, and judges the answers. `WorkloadClient` sends the requests, and `Backoff` says when.

The controller touches a workload whose hash differs from the hash of its plan, or that differs in another way, which a
read of the workload must confirm. If the webhook has rendered that write, and the answer still differs, then the
apiserver or another webhook does not store the request as sent. The controller remembers such values, and does not
request them again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.controller.workload_decision import (
    Action,
    Decision,
    Result,
    decide,
    decide_after_write,
    leave_with,
    retry,
)
from fleethook.engines.overrider.controller.workload_watch import Workloads
from fleethook.engines.overrider.controller.workload_writes_and_retries import (
    MAX_CONCURRENT_OF_SUBJECT,
    Backoff,
    RequiredVersions,
)
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION, TWEAKS_ANNOTATION, has_trigger
from fleethook.engines.overrider.subject.workload_owner import hash_of, pool_of
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.json import JSONObject, as_object
from fleethook.work.threads_and_gc import Worker

# Timers are floats, and may fire early by less than this.
_ROUNDING_SECONDS: Final = 1e-3
# A decision about a workload takes some 30 µs, and longer if the plan of its pool is compiled.
_DECIDED_AT_ONCE: Final = 8


class TouchTarget(NamedTuple):
    """A workload to touch, with the plan that it is converged to."""

    key: ObjectKey
    plan: PoolPlan
    had: str
    """The hash in its annotation before."""
    undone_scale: str
    """`Drift.scale` before the touch."""


class Converger:
    """Converges workloads, each with its own backoff."""

    def __init__(
        self,
        workloads: Workloads,
        backoff: Backoff,
        *,
        store: StoreView,
        plans: PlanCache,
        worker: Worker,
        time: Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            workloads: The workloads.
            backoff: Says when a workload may be written again.
            store: Node pools.
            plans: The plans that were compiled from subjects, overriders and node pools.
            worker: Compiles large plans in a thread.
            time: Returns a monotonic time in seconds.
        """
        self._workloads: Final = workloads
        self._backoff: Final = backoff
        self._store: Final = store
        self._plans: Final = plans
        self._worker: Final = worker
        self._time: Final = time

    async def find_targets(self, at: SubjectState, *, waits: bool) -> tuple[list[TouchTarget], list[Result]]:
        """Return the workloads of a subject to touch, and the outcomes of all others.

        Args:
            at: The subject.
            waits: Whether the controller of the subject shall write first.
        """
        targets: list[TouchTarget] = []
        known: list[Result] = []
        for number, key in enumerate(at.keys, 1):
            while isinstance(outcome := self._find_target(key, at, waits=waits), LongCompilation):
                await self._worker.run("", outcome.run)
            if number % _DECIDED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if isinstance(outcome, TouchTarget):
                targets.append(outcome)
            elif outcome is not None:
                known.append(outcome)
        return targets, known

    def _find_target(
        self, key: ObjectKey, at: SubjectState, *, waits: bool
    ) -> TouchTarget | Result | LongCompilation | None:
        """Return the target of a workload, the outcome if it needs no write now, or None if no override applies.

        If compiling its plan would block the event loop, return the compilation.
        """
        workload, kind = self._workloads.get(key), key.group_kind.kind
        if workload is None or workload.deleting:
            return None
        had = hash_of(workload)
        try:
            plan = self._find_plan(workload, at, kind)
        except RenderError as error:
            # A workload that cannot be rendered keeps its hash.
            return self._report(key, Decision(problem=str(error)), digest=had, had=had)
        if plan is None or isinstance(plan, LongCompilation):
            return plan
        drift = self._workloads.drifts.find(key)
        unstored, changed = self._workloads.drifts.unstored.get(key), had != plan.digest
        decision = decide(at.binding, changed=changed, drift=drift, unstored=unstored, waits=waits)
        again: float | None = None
        if decision.action is Action.TOUCH:
            again = self._backoff.due(key, plan.digest, self._time())
            if again - self._time() <= _ROUNDING_SECONDS:
                return TouchTarget(key, plan, had, drift.scale if drift is not None and had == plan.digest else "")
            known = retry(()) if drift is None else retry(drift.pointers, scale=drift.scale)
            problem = self._backoff.problem(key, plan.digest, self._time())
            decision = Decision(Action.RETRY, problem or known.problem)
        return self._report(key, decision, digest=plan.digest, had=had, again=again)

    def _find_plan(self, workload: PartialObject, at: SubjectState, kind: str) -> PoolPlan | LongCompilation | None:
        """Return the plan of a workload, or its compilation if that would block the event loop; raises RenderError.

        None if the subject is gone, or has no valid template for the workload: no override applies then, and the
        garbage collector or the subject's controller removes the workload.
        """
        if at.subject is None:
            return None
        kept_tweaks, pool = str(workload.annotations.get(TWEAKS_ANNOTATION) or ""), pool_of(workload)
        try:
            return self._plans.find(
                at.binding.group_kind, at.subject, at.effective, kind=kind, pool=pool, cluster=at.binding.cluster,
                store=self._store, kept_tweaks=kept_tweaks,
            )  # fmt: skip
        except SubjectError:
            return None

    def _report(
        self, key: ObjectKey, decision: Decision, *, digest: str, had: str, again: float | None = None
    ) -> Result | None:
        """Return the outcome for the status, None if the workload is gone."""
        workload = self._workloads.get(key)
        if workload is None:
            return None
        kind, pool = key.group_kind.kind, pool_of(workload)
        return Result(pool, kind, key.name, digest, workload.generation, decision, had, again)

    async def converge_all(self, targets: Sequence[TouchTarget], seen: RequiredVersions) -> list[Result]:
        """Touch each of these workloads, which `find_targets` has found.

        Args:
            targets: The workloads.
            seen: The versions of the inputs that the rendering replica needs.
        """
        outcomes: list[Result | None] = [None] * len(targets)
        waiting = iter(enumerate(targets))

        async def converge_next() -> None:
            for number, target in waiting:
                outcomes[number] = await self._converge(target, seen)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(targets), MAX_CONCURRENT_OF_SUBJECT)):
                tasks.create_task(converge_next())
        return [outcome for outcome in outcomes if outcome is not None]

    async def _converge(self, target: TouchTarget, seen: RequiredVersions) -> Result | None:
        key, digest = target.key, target.plan.digest
        try:
            decision = await self._attempt(target, seen)
        except (APIError, UnreachableError) as error:
            if isinstance(error, APIError) and error.code == NOT_FOUND:
                self._workloads.forget(key)
                return None
            decision = Decision(Action.RETRY, self._backoff.failed(key, digest, error, self._time()))
        again = self._backoff.due(key, digest, self._time()) if decision.action is Action.RETRY else None
        self._workloads.failed += bool(decision.problem)
        return self._report(key, decision, digest=digest, had=target.had, again=again)

    async def _attempt(self, target: TouchTarget, seen: RequiredVersions) -> Decision:
        """Touch a workload, unless it has the right hash and the present inputs do not confirm its drift."""
        key, digest = target.key, target.plan.digest
        if target.had == digest:
            self._workloads.compare(key, await self._workloads.client.read(key))
            drift, unstored = self._workloads.drifts.find(key), self._workloads.drifts.unstored.get(key)
            if drift is None or drift.error:
                return Decision(problem=drift.error) if drift else leave_with(unstored)
        self._backoff.wrote(key, digest, self._time())
        return self._judge(target, await self._workloads.client.touch(key, seen=seen))

    def _judge(self, target: TouchTarget, written: JSONObject) -> Decision:
        """Decide about the answer to a touch, and remember the result."""
        key = target.key
        drift = self._workloads.compare(key, written)
        annotations = as_object(written["metadata"].get("annotations"))
        is_current = str(annotations.get(RENDERED_ANNOTATION) or "") == target.plan.digest
        # The webhook removes the trigger, so an answer with a trigger shows that the apiserver did not call it.
        decision = decide_after_write(drift, rendered=is_current and not has_trigger(written["metadata"]))
        if decision.action is Action.ACCEPT:
            self._workloads.drifts.note_unstored(key, drift)
        left = self._workloads.drifts.find(key)
        if left is not None and left.identity != drift.identity:
            # Another client has changed the workload after this touch, and the watch has delivered that already.
            decision = retry(left.pointers, scale=left.scale)
        self._backoff.ended(key, decision.problem if decision.action is not Action.ACCEPT else "")
        return decision if decision.problem else decision._replace(undone_scale=target.undone_scale)
