"""Converges workloads to the state that their overrider requests, with as few writes as possible.

`fleethook.engines.overrider.controller.workload_decision` decides, and this module sends the requests.

The controller touches a workload whose hash differs from the hash of its plan. A workload with the right
hash may differ all the same: a write bypassed the webhook, or the apiserver did not store the request as sent. A dry
run of the rendered workload distinguishes the two. The controller remembers values that the apiserver would not store,
and does not request them again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.owner_controller import find_lag
from fleethook.engines.overrider.controller.status import Result
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.controller.workload_client import RequiredVersions
from fleethook.engines.overrider.controller.workload_decision import (
    Action,
    Decision,
    Drift,
    Patience,
    Storable,
    decide,
    decide_from_part,
    plan_workload,
    retry,
    summarize_unstored,
)
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.controller.write_backoff import Backoff
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.plan.subject_plans import LongCompilation
from fleethook.engines.overrider.render.member_differences import fingerprint
from fleethook.engines.overrider.subject.owner_index import Binding, hash_of, pool_of
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import RENDERED_ANNOTATION
from fleethook.work.pausing import Pauses, Work

_log: Final = logging.getLogger(__name__)

_GONE: Final = 404
_CONFLICT: Final = 409
_TOO_MANY_REQUESTS: Final = 429
# After a conflict (409), the watch delivers the change of the workload within this time.
_CHANGED_SECONDS: Final = 1.0
# Timers are floats, and may fire early by less than this.
_ROUNDING_SECONDS: Final = 1e-3
# A dry run is refused with 400 if a webhook does not support it, and with 403 or 405 if a policy forbids it.
_NO_DRY_RUN: Final = frozenset({400, 403, 405})
# To compare a workload without drift takes some 30 µs.
_SLICE: Final = 8
# Workers for one subject: more than any setting allows to be touched at a time.
_MAX_CONCURRENT: Final = 100


class Target(NamedTuple):
    """A workload, with the plan that it is converged to."""

    key: ObjectKey
    binding: Binding
    plan: PoolPlan
    had: str
    """The hash in its annotation before."""
    seen: RequiredVersions
    """The versions of the inputs that the rendering replica needs."""
    patience: Patience


class Outcome(NamedTuple):
    """The result of one workload's reconciliation."""

    result: Result
    had: str
    """The hash in its annotation before."""
    again: float | None = None
    """The time of the next attempt, None to wait for a change."""


class Converger:
    """Converges workloads, each with its own backoff."""

    def __init__(
        self,
        workloads: Workloads,
        backoff: Backoff,
        *,
        store: StoreView,
        plans: PlanCache,
        time: Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            workloads: The workloads.
            backoff: Says when a workload may be written again.
            store: Overriders, subjects and node pools.
            plans: The plans that were compiled from them.
            time: Returns a monotonic time in seconds.
        """
        self._workloads: Final = workloads
        self._backoff: Final = backoff
        self._store: Final = store
        self._plans: Final = plans
        self._time: Final = time
        # The version and the requested hash of each workload that waits for its owner's controller.
        self._lagging: Final[dict[ObjectKey, tuple[str, str]]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._backoff.forget(key)
        self._lagging.pop(key, None)

    def find_targets(
        self, at: SubjectState, seen: RequiredVersions, patience: Patience
    ) -> Work[tuple[list[Target], list[Outcome]]]:
        """Return the workloads of a subject that need a request, and the outcomes of all others.

        Args:
            at: The subject.
            seen: The versions of the inputs that the rendering replica needs.
            patience: Whether to wait for the controller of the subject.
        """
        targets: list[Target] = []
        known: list[Outcome] = []
        pauses = Pauses(_SLICE)
        for key in at.keys:
            before = self._plans.weight
            while isinstance(found := self._find_target(key, at, seen, patience), LongCompilation):
                yield found.run
            # Adding the plan of a pool takes as long as comparing a workload, and compiling it longer.
            if pauses.due(1 + max(0, self._plans.weight - before)):
                yield
            if isinstance(found, Target):
                outcome = self._decide_at_once(found)
                if outcome is None:
                    targets.append(found)
                    continue
                found = outcome
            known += [] if found is None else [found]
        return targets, known

    def _find_target(
        self, key: ObjectKey, at: SubjectState, seen: RequiredVersions, patience: Patience
    ) -> Target | Outcome | LongCompilation | None:
        """Return the target of a workload, the outcome if it cannot be rendered, or None if no override applies.

        If compiling its plan would block the event loop, return the compilation.
        """
        workload, kind = self._workloads.get(key), key.group_kind.kind
        if workload is None or workload.deleting:
            return None
        had = hash_of(workload)
        plan, problem, compilation = plan_workload(
            workload, at.binding, at.effective, kind=kind, store=self._store, plans=self._plans, at_once=False
        )
        if compilation is not None:
            return compilation
        if plan is not None:
            return Target(key, at.binding, plan, had, seen, patience)
        # A workload that cannot be rendered keeps its hash.
        return self._report(key, Decision(problem=problem), digest=had, had=had) if problem else None

    def _decide_at_once(self, target: Target) -> Outcome | None:
        """Return the outcome of a workload that needs no request now, None if it needs one."""
        key, workload = target.key, self._workloads.get(target.key)
        assert workload is not None
        drift = self._workloads.drift(key)
        decision = decide_from_part(
            target.binding,
            changed=hash_of(workload) != target.plan.digest,
            drifted=drift is not None,
            unstored=self._workloads.unstored.get(key),
            patience=target.patience,
            lags=self._lagging.get(key) == (workload.resource_version, target.plan.digest),
        )
        again: float | None = None
        if decision.action is Action.READ and drift is not None and drift.error:
            decision = Decision(problem=drift.error)  # The comparison with this plan, at the last change, has found it.
        if decision.action in (Action.READ, Action.TOUCH):
            again = self._backoff.due(key, target.plan.digest, self._time())
            if again - self._time() <= _ROUNDING_SECONDS:
                return None
            known = retry(()) if drift is None else retry(drift.pointers, scale=drift.scale)
            decision = Decision(Action.RETRY, self._backoff.problem(key) or known.problem)
        if decision.action is Action.LEAVE:
            self._lagging.pop(key, None)
        return self._report(key, decision, digest=target.plan.digest, had=target.had, again=again)

    def _report(
        self, key: ObjectKey, decision: Decision, *, digest: str, had: str, again: float | None = None
    ) -> Outcome | None:
        """Return the outcome for the status, None if the workload is gone."""
        workload = self._workloads.get(key)
        if workload is None:
            return None
        kind = key.group_kind.kind
        return Outcome(Result(pool_of(workload), kind, key.name, digest, workload.generation, decision), had, again)

    async def converge_all(self, targets: Sequence[Target]) -> list[Outcome]:
        """Converge each of these workloads, which `find_targets` has found."""
        outcomes: list[Outcome | None] = [None] * len(targets)
        waiting = iter(enumerate(targets))

        async def converge_next() -> None:
            for number, target in waiting:
                outcomes[number] = await self._converge(target)

        # Thousands of tasks would block the event loop for a tenth of a second, so a few workers share the targets.
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(targets), _MAX_CONCURRENT)):
                tasks.create_task(converge_next())
        return [one for one in outcomes if one is not None]

    async def _converge(self, target: Target) -> Outcome | None:
        key, again = target.key, None
        try:
            decision = await self._attempt(target)
        except (APIError, UnreachableError) as error:
            decision, again = self._record_failure(target, error)
        if decision.action is Action.RETRY and again is None:
            again = self._backoff.due_of(key)
        self._workloads.failed += bool(decision.problem and decision.action is not Action.WAIT)
        return self._report(key, decision, digest=target.plan.digest, had=target.had, again=again)

    async def _attempt(self, target: Target) -> Decision:
        """Read the workload if its hash does not decide, then touch it."""
        key = target.key
        workload = self._workloads.get(key)
        if workload is not None and hash_of(workload) != target.plan.digest and not target.patience.wait:
            return await self._touch(target)
        document = await self._workloads.client.read(key)
        found = self._workloads.detect_drift(key, document)
        changed = _read_hash(document) != target.plan.digest
        lags = changed and target.patience.wait and find_lag(document, target.plan, found) is not None
        unstored, storable = self._workloads.unstored.get(key), Storable.UNTESTED
        decision = decide(target.binding, found, changed=changed, lags=lags, unstored=unstored)
        if decision.action is Action.TEST:
            storable = await self._test(target, document, found)
            decision = decide(target.binding, found, unstored=unstored, storable=storable)
        if decision.action is Action.TOUCH:
            touched = await self._touch(target, conflict=found.identity if storable is Storable.YES else "")
            return touched if touched.problem else touched._replace(undone_scale=found.scale)
        if decision.action is Action.WAIT:
            self._lagging[key] = (document["metadata"]["resourceVersion"], target.plan.digest)
        elif decision.action is Action.ACCEPT:
            self._remember(key, found)
        elif found.error:
            self._backoff.ended(key, found.error)
        else:
            self._workloads.note(key, found)
            self._lagging.pop(key, None)
        return decision

    async def _touch(self, target: Target, *, conflict: str = "") -> Decision:
        """Touch a workload.

        Args:
            target: The workload and its plan.
            conflict: The identity of its drift, if a dry run has shown that the apiserver would store the request.
        """
        key = target.key
        self._backoff.wrote(key, target.plan.digest, self._time(), conflict=conflict)
        written = await self._workloads.client.touch(key, seen=target.seen, lane=target.binding)
        document, found = self._workloads.detect_drift_after_write(key, written)
        unstored, storable = self._workloads.unstored.get(key), Storable.UNTESTED
        decision = decide(target.binding, found, written=True, unstored=unstored)
        if decision.action is Action.TEST:
            storable = await self._test(target, document, found)
            repeated = self._backoff.unproven(key) == found.identity
            decision = decide(
                target.binding, found, written=True, unstored=unstored, storable=storable, repeated=repeated
            )
        if decision.action is Action.ACCEPT:
            self._remember(key, found)
        elif decision.action is Action.RETRY:
            self._backoff.ended(
                key,
                decision.problem,
                conflict=found.identity if storable is Storable.YES else "",
                unproven=found.identity if storable is Storable.UNKNOWN else "",
            )
        elif found.error:
            self._backoff.ended(key, found.error)
        else:
            self._backoff.ended(key, "", conflict=self._backoff.conflict(key))
            self._lagging.pop(key, None)
        return decision

    async def _test(self, target: Target, document: JSONObject, found: Drift) -> Storable:
        """Find out by a dry run whether the apiserver would store any of the missing values."""
        if self._backoff.conflict(target.key) == found.identity:
            return Storable.YES
        try:
            return Storable.YES if await self._would_be_stored(target, document, found) else Storable.NO
        except APIError as error:
            if error.code in _NO_DRY_RUN:
                return Storable.UNKNOWN
            raise

    async def _would_be_stored(self, target: Target, document: JSONObject, found: Drift) -> bool:
        """Return whether a dry run of the rendered workload stores any of the missing values."""
        answer = await self._workloads.client.dry_run(target.key, document, found.operations, lane=target.binding)
        # The stored value is part of the fingerprint: another webhook may replace the request differently each time.
        left = {fingerprint([one]) for one in self._workloads.detect_drift(target.key, answer).differences}
        return any(fingerprint([one]) not in left for one in found.differences)

    def _remember(self, key: ObjectKey, found: Drift) -> None:
        self._lagging.pop(key, None)
        self._workloads.unstored.remember(key, summarize_unstored(found.identity, found.differences))
        self._workloads.note(key, found)
        self._backoff.ended(key, "")
        _log.info(
            "%s %s/%s: the apiserver does not store the requested values of %s",
            key.group_kind.kind,
            *key[2:],
            ", ".join(found.pointers[:5]),
        )

    def _record_failure(self, target: Target, error: APIError | UnreachableError) -> tuple[Decision, float | None]:
        """Return the decision after a failed request, and the time of the next attempt if the backoff does not say."""
        key = target.key
        if isinstance(error, APIError) and error.code == _GONE:
            self._workloads.forget(key)
            return Decision(), None
        if isinstance(error, APIError) and error.code == _CONFLICT:
            return Decision(Action.RETRY, self._backoff.problem(key)), self._time() + _CHANGED_SECONDS
        if self._backoff.due_of(key) <= self._time():
            self._backoff.wrote(key, target.plan.digest, self._time())
        outage = not isinstance(error, APIError) or error.code >= 500 or error.code == _TOO_MANY_REQUESTS
        problem = f"the write failed: {error}" if isinstance(error, APIError) else str(error)
        self._backoff.ended(key, problem, outage=outage)
        return Decision(Action.RETRY, problem), None


def _read_hash(document: JSONObject) -> str:
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get(RENDERED_ANNOTATION) or "")
