"""Converges one workload to the state that its overrider requests, with as few writes as possible.

The controller touches a workload whose hash differs from the hash of its plan. A workload with the right
hash may differ all the same: a write bypassed the webhook, or the apiserver did not store the request as sent. A dry
run of the rendered workload distinguishes the two. The controller remembers values that the apiserver would not store,
and does not request them again.
"""

import logging
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.drift import Drift, summarize_unstored
from fleethook.engines.overrider.controller.owner_controller import Patience, find_lag
from fleethook.engines.overrider.controller.workload_client import RequiredVersions
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.controller.write_backoff import Backoff
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.render.member_differences import fingerprint
from fleethook.engines.overrider.subject.binding import Binding, hash_of
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import RENDERED_ANNOTATION

_log: Final = logging.getLogger(__name__)

_GONE: Final = 404
_CONFLICT: Final = 409
_TOO_MANY_REQUESTS: Final = 429
# After a conflict (409), the watch delivers the change of the workload within this time.
_CHANGED_SECONDS: Final = 1.0
_MAX_POINTERS: Final = 3
# Timers are floats, and may fire early by less than this.
_ROUNDING_SECONDS: Final = 1e-3
# A dry run is refused with 400 if a webhook does not support it, and with 403 or 405 if a policy forbids it.
_NO_DRY_RUN: Final = frozenset({400, 403, 405})


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
    """The state of a workload after an attempt."""

    problem: str = ""
    """The problem as a message, ``""`` for none."""
    again: float | None = None
    """The time of the next attempt, None to wait for a change."""
    waits: bool = False
    """Whether the owner's controller has to write the workload first."""
    lost: bool = False
    """Whether the problem is that the apiserver does not store the requested values."""
    notes: tuple[str, ...] = ()
    """Pointers of empty values and defaults that the apiserver stores differently. These are no problem."""


class Converger:
    """Converges workloads, each with its own backoff."""

    def __init__(self, workloads: Workloads, backoff: Backoff, *, time: Callable[[], float]) -> None:
        """Prepare.

        Args:
            workloads: The workloads.
            backoff: Says when a workload may be written again.
            time: Returns a monotonic time in seconds.
        """
        self._workloads: Final = workloads
        self._backoff: Final = backoff
        self._time: Final = time
        # The version and the requested hash of each workload that waits for its owner's controller.
        self._lagging: Final[dict[ObjectKey, tuple[str, str]]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._backoff.forget(key)
        self._lagging.pop(key, None)

    def decide(self, target: Target) -> Outcome | None:
        """Return the outcome of a workload that needs no request now, None if `converge` has to handle it."""
        key, workload = target.key, self._workloads.get(target.key)
        if workload is None:
            return Outcome()
        changed = hash_of(workload) != target.plan.digest
        drift = self._workloads.drift(key)
        if not changed and drift is None:
            return self._report_remainder(key)
        if changed and self._must_wait(target, workload.resource_version):
            return Outcome(_describe_waiting(target.binding), waits=True)
        due = self._backoff.due(key, target.plan.digest, self._time())
        if due - self._time() > _ROUNDING_SECONDS:
            return Outcome(self._backoff.problem(key) or _describe_conflict(drift or ()), again=due)
        return None

    async def converge(self, target: Target) -> Outcome:
        """Converge a workload for which `decide` returned None."""
        try:
            outcome = await self._attempt(target)
        except (APIError, UnreachableError) as error:
            outcome = self._record_failure(target, error)
        self._workloads.failed += bool(outcome.problem and not outcome.waits)
        return outcome

    def _must_wait(self, target: Target, version: str) -> bool:
        """Return whether the owner's controller has to write first, if that is known without reading the workload."""
        if not target.patience.wait:
            return False
        return not target.patience.observed or self._lagging.get(target.key) == (version, target.plan.digest)

    async def _attempt(self, target: Target) -> Outcome:
        """Read the workload if its hash does not decide, then touch it."""
        key = target.key
        workload = self._workloads.get(key)
        sure = workload is not None and hash_of(workload) != target.plan.digest
        if not sure or target.patience.wait:
            document = await self._workloads.client.read(key)
            found = self._workloads.detect_drift(key, document)
            sure = _read_hash(document) != target.plan.digest
            if found.error:
                # A write cannot succeed until an input or the workload changes.
                return self._record_problem(key, found.error)
            if sure and target.patience.wait and find_lag(document, target.plan, found):
                self._lagging[key] = (document["metadata"]["resourceVersion"], target.plan.digest)
                return Outcome(_describe_waiting(target.binding), waits=True)
            if not sure:
                return await self._repair(target, document, found)
        return await self._touch(target)

    async def _repair(self, target: Target, document: JSONObject, found: Drift) -> Outcome:
        """Touch a workload that drifted although its hash is right, unless a write is useless."""
        key = target.key
        if found.is_in_sync or self._workloads.unstored.explains(key, found.identity):
            self._workloads.note(key, found)
            return self._report_remainder(key)
        verdict = await self._judge(target, document, found)
        if verdict == "lost":
            return self._remember(key, found)
        return await self._touch(target, conflict=found.identity if verdict == "conflict" else "")

    async def _touch(self, target: Target, *, conflict: str = "") -> Outcome:
        """Touch a workload.

        Args:
            target: The workload and its plan.
            conflict: The identity of its drift, if a dry run has shown that the apiserver would store the request.
        """
        key = target.key
        self._backoff.wrote(key, target.plan.digest, self._time(), conflict=conflict)
        written = await self._workloads.client.touch(key, seen=target.seen, lane=target.binding)
        document, found = self._workloads.detect_drift_after_write(key, written)
        if found.error:
            return self._record_problem(key, found.error)
        if found.is_in_sync or self._workloads.unstored.explains(key, found.identity):
            self._backoff.ended(key, "", conflict=self._backoff.conflict(key))
            return self._report_remainder(key)
        verdict = await self._judge(target, document, found)
        # Without a dry run, a value counts as not stored if a second write returns the same drift.
        if verdict == "lost" or (verdict == "unproven" and self._backoff.unproven(key) == found.identity):
            return self._remember(key, found)
        problem = _describe_conflict(found.pointers)
        self._backoff.ended(
            key,
            problem,
            conflict=found.identity if verdict == "conflict" else "",
            unproven=found.identity if verdict == "unproven" else "",
        )
        return Outcome(problem, again=self._backoff.due_of(key))

    async def _judge(
        self, target: Target, document: JSONObject, found: Drift
    ) -> Literal["conflict", "lost", "unproven"]:
        """Find out by a dry run whether the apiserver would store any of the missing values.

        ``conflict``: it would, so another client reverts them. ``lost``: it would not. ``unproven``: a webhook or a
        policy refuses dry runs.
        """
        if self._backoff.conflict(target.key) == found.identity:
            return "conflict"
        try:
            return "conflict" if await self._would_be_stored(target, document, found) else "lost"
        except APIError as error:
            if error.code in _NO_DRY_RUN:
                return "unproven"
            raise

    async def _would_be_stored(self, target: Target, document: JSONObject, found: Drift) -> bool:
        """Return whether a dry run of the rendered workload stores any of the missing values."""
        answer = await self._workloads.client.dry_run(target.key, document, found.operations, lane=target.binding)
        # The stored value is part of the fingerprint: another webhook may replace the request differently each time.
        left = {fingerprint([one]) for one in self._workloads.detect_drift(target.key, answer).differences}
        return any(fingerprint([one]) not in left for one in found.differences)

    def _remember(self, key: ObjectKey, found: Drift) -> Outcome:
        left = summarize_unstored(found.identity, found.differences)
        self._workloads.unstored.remember(key, left)
        self._workloads.note(key, found)
        self._backoff.ended(key, "")
        _log.info(
            "%s %s/%s: the apiserver does not store the requested values of %s",
            key.group_kind.kind,
            *key[2:],
            ", ".join(found.pointers[:5]),
        )
        return self._report_remainder(key)

    def _report_remainder(self, key: ObjectKey) -> Outcome:
        """Return the outcome of a workload for which the apiserver stores as much of the request as it ever will."""
        self._lagging.pop(key, None)
        left = self._workloads.unstored.get(key)
        if left is None:
            return Outcome()
        if left.lost:
            return Outcome(_describe_lost(left.lost), lost=True, notes=left.insignificant)
        return Outcome(notes=left.insignificant)

    def _record_problem(self, key: ObjectKey, problem: str) -> Outcome:
        self._backoff.ended(key, problem)
        return Outcome(problem)

    def _record_failure(self, target: Target, error: APIError | UnreachableError) -> Outcome:
        key = target.key
        if isinstance(error, APIError) and error.code == _GONE:
            self._workloads.forget(key)
            return Outcome()
        if isinstance(error, APIError) and error.code == _CONFLICT:
            return Outcome(self._backoff.problem(key), again=self._time() + _CHANGED_SECONDS)
        if self._backoff.due_of(key) <= self._time():
            self._backoff.wrote(key, target.plan.digest, self._time())
        outage = not isinstance(error, APIError) or error.code >= 500 or error.code == _TOO_MANY_REQUESTS
        problem = f"the write failed: {error}" if isinstance(error, APIError) else str(error)
        self._backoff.ended(key, problem, outage=outage)
        return Outcome(problem, again=self._backoff.due_of(key))


def _read_hash(document: JSONObject) -> str:
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get(RENDERED_ANNOTATION) or "")


def _describe_waiting(binding: Binding) -> str:
    return f"waiting until the controller of {binding.group_kind.kind} {binding.name} has written the changed template"


def _describe_conflict(pointers: tuple[str, ...]) -> str:
    where = _list_pointers(pointers) or "its annotation fleethook.io/rendered"
    return (
        f"re-render requested, but {where} still differs: check that the webhook is registered, and that no other "
        "webhook or controller reverts it"
    )


def _describe_lost(pointers: tuple[str, ...]) -> str:
    return (
        f"the apiserver did not keep {_list_pointers(pointers)}: check the path for a misspelled field, and whether "
        "another webhook changes it"
    )


def _list_pointers(pointers: tuple[str, ...]) -> str:
    more = f" and {len(pointers) - _MAX_POINTERS} more" if len(pointers) > _MAX_POINTERS else ""
    return ", ".join(pointers[:_MAX_POINTERS]) + more
