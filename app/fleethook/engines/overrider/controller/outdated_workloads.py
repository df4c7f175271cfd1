"""Finds workloads that OpenYurt's controller left outdated, and makes it reconcile them by an annotation: a nudge.

OpenYurt 1.4 logs a refused write and does not retry it. If a subject was edited or created while fleethook was
unavailable, its workloads stay outdated until the subject changes. So the leader changes an annotation of the subject.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.owner_controller import (
    DAEMONS_WITHOUT_CONTROLLER,
    Lag,
    OwnerWaits,
    find_lag,
    has_observed,
    nudged_lately,
)
from fleethook.engines.overrider.controller.status import StatusReporter
from fleethook.engines.overrider.controller.subject_state import SubjectState, find_overriders
from fleethook.engines.overrider.controller.workload_decision import NO_DRIFT, Patience, plan_workload
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding, binding_of, hash_of
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NUDGED_ANNOTATION, REVISION_LABEL

# Dry runs for the workloads of one subject. The apiserver treats the others in the same way.
MAX_ASKED: Final = 3


class OutdatedWorkloads:
    """The workloads that were outdated at the last comparison and have not changed since."""

    def __init__(self, workloads: Workloads, *, store: StoreView, plans: PlanCache) -> None:
        """Prepare.

        Args:
            workloads: The workloads.
            store: Overriders, subjects and node pools.
            plans: The plans that were compiled from them.
        """
        self._workloads: Final = workloads
        self._store: Final = store
        self._plans: Final = plans
        self._behind: Final[set[ObjectKey]] = set()
        # The differences of workloads that the apiserver would not store for their owner either.
        self._unkept: Final[dict[ObjectKey, frozenset[str]]] = {}
        # Workloads whose owner this leader has nudged, and which have not changed since.
        self._nudged: Final[set[ObjectKey]] = set()

    def compare(self, key: ObjectKey, document: JSONObject) -> bool:
        """Compare a complete workload with its template; return whether it is outdated."""
        self._behind.discard(key)
        lag = self._find_lag(key, document)
        if lag is None or self._unkept.get(key) == lag.lacks:
            return False
        self._behind.add(key)
        return True

    def changed(self, key: ObjectKey, *, gone: bool) -> None:
        """Forget the result for a workload that has changed."""
        self._behind.discard(key)
        self._nudged.discard(key)
        if gone:
            self._unkept.pop(key, None)

    def find(self, keys: Sequence[ObjectKey]) -> list[ObjectKey]:
        """Return the outdated workloads of a subject.

        A workload is not outdated if another one of the same revision is not: the owner has written both, and another
        client has changed this one since. If the other one has an override, the proof is weaker, because an entry may
        hide a change of the template. Then one nudge shows whether the owner has anything to write.
        """
        behind = [key for key in keys if key in self._behind]
        if not behind:
            return []
        others = [key for key in keys if key not in self._behind]
        current = {self._read_revision(key) for key in others if not self._has_override(key)} - {""}
        doubtful = {self._read_revision(key) for key in others} - {""}
        return [
            key
            for key in behind
            if (revision := self._read_revision(key)) not in current
            and (revision not in doubtful or key not in self._nudged)
        ]

    def note_nudge(self, keys: Sequence[ObjectKey]) -> None:
        """Record that the owner of these workloads was nudged."""
        self._nudged.update(self._behind.intersection(keys))

    def _has_override(self, key: ObjectKey) -> bool:
        workload = self._workloads.get(key)
        return workload is not None and bool(hash_of(workload))

    async def confirm(self, keys: Sequence[ObjectKey], *, lane: Binding) -> bool:
        """Return whether a write of the owner could update these workloads, which a dry run tests.

        Another webhook may change a member at each write, so that no workload ever equals its template.
        """
        for key in keys[:MAX_ASKED]:
            try:
                if await self._could_catch_up(key, lane=lane):
                    return True
            except (APIError, UnreachableError):
                return True  # The dry run failed. A nudge does no harm.
        # The next resync finds the workloads without a dry run again.
        self._behind.difference_update(keys)
        return False

    async def _could_catch_up(self, key: ObjectKey, *, lane: Binding) -> bool:
        document = await self._workloads.client.read(key)
        before = self._find_lag(key, document)
        if before is not None:
            answer = await self._workloads.client.dry_run(key, document, before.operations, lane=lane)
            after = self._find_lag(key, answer)
            if after is None or before.lacks - after.lacks:
                return True
            self._unkept[key] = before.lacks
        return False

    def _read_revision(self, key: ObjectKey) -> str:
        workload = self._workloads.get(key)
        return "" if workload is None else str(workload.labels.get(REVISION_LABEL) or "")

    def _find_lag(self, key: ObjectKey, document: JSONObject) -> Lag | None:
        workload = self._workloads.get(key)
        if workload is None or hash_of(workload) or (binding := binding_of(workload, key.cluster)) is None:
            return None
        overriders = find_overriders(self._store, binding)
        if not overriders:
            return None
        plan = plan_workload(
            workload, binding, overriders[0], kind=key.group_kind.kind, store=self._store, plans=self._plans
        ).plan
        return None if plan is None or plan.applies else find_lag(document, plan, NO_DRIFT)


_log: Final = logging.getLogger(__name__)


class Nudger:
    """Waits for the controllers of subjects, and nudges late ones."""

    def __init__(
        self,
        connection: Connection,
        source: KubernetesSource,
        waits: OwnerWaits,
        outdated: OutdatedWorkloads,
        reporter: StatusReporter,
        *,
        now: Callable[[], datetime],
    ) -> None:
        """Prepare.

        Args:
            connection: To the apiserver.
            source: The watch of the subjects.
            waits: The times until which the controllers of subjects may write.
            outdated: The outdated workloads without an override.
            reporter: Writes events.
            now: Returns the time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._waits: Final = waits
        self._outdated: Final = outdated
        self._reporter: Final = reporter
        self._now: Final = now

    async def wait_for_owner(self, at: SubjectState) -> Patience:
        """Nudge a subject's controller if it is late; return whether to wait for it."""
        binding, pools = at.binding, len(at.pools)
        if at.subject is None or at.no_controller == DAEMONS_WITHOUT_CONTROLLER:
            return Patience(wait=False, observed=True)
        if at.can_nudge and self._waits.should_nudge(binding, pools=pools) and await self._may_help(at):
            await self._nudge(at, at.subject)
        patience = self._waits.patience(binding, pools=pools, observed=has_observed(at.subject))
        if not patience.wait and self._waits.waited(binding):
            _log.warning(
                "%s: its controller has not written the changed template within %.0f s; workloads are rendered now, "
                "and roll out once more when it does",
                at.name,
                self._waits.limit(pools),
            )
        return patience

    async def _may_help(self, at: SubjectState) -> bool:
        """Return whether the subject's controller has workloads to write."""
        if at.missing or self._waits.waited(at.binding):
            return True
        return await self._outdated.confirm(self._outdated.find(at.keys), lane=at.binding)

    def note(self, at: SubjectState, *, waits: bool) -> None:
        """Record the result of a reconciliation.

        Args:
            at: The subject.
            waits: Whether workloads with an override wait for the subject's controller.
        """
        behind = bool(self._outdated.find(at.keys))
        self._waits.note(at.binding, waiting=waits, behind=behind, missing=bool(at.missing))

    def is_late(self, at: SubjectState) -> bool:
        """Return whether the time of the subject's controller is over."""
        over = self._waits.trouble(at.binding, pools=len(at.pools))
        return over is not None and self._waits.now >= over

    def find_orphans(self, at: SubjectState) -> tuple[str, ...]:
        """Return the workloads without an owner, for messages.

        A workload whose owner was deleted counts only after some time. Usually the garbage collector deletes it.
        """
        return tuple(map(str, (*at.orphans, *(() if self._may_be_collected(at) else at.dangling))))

    def _may_be_collected(self, at: SubjectState) -> bool:
        return self._waits.now < self._waits.first_limit(at.binding, pools=len(at.pools))

    def next_time(self, at: SubjectState, *, waits: bool) -> float:
        """Return the time when the controller's time is over or a nudge is due; infinity if nothing waits for it.

        Args:
            at: The subject.
            waits: Whether workloads with an override wait for the subject's controller.
        """
        binding, pools = at.binding, len(at.pools)
        times = [self._waits.until(binding, pools=pools)] if waits else []
        if at.dangling and self._may_be_collected(at):
            times.append(self._waits.first_limit(binding, pools=pools))
        late = self._waits.trouble(binding, pools=pools)
        # If the controller is late already, only a due nudge needs another reconciliation.
        if late is not None and (late > self._waits.now or self._waits.should_nudge(binding, pools=pools)):
            times += [late] if at.can_nudge or late > self._waits.now else []
        return min(times, default=float("inf"))

    async def _nudge(self, at: SubjectState, subject: JSONObject) -> None:
        binding = at.binding
        if nudged_lately(subject, now=self._now(), seconds=self._waits.interval):
            self._waits.nudged(binding, well=False)
            return
        path = self._source.informer(binding.group_kind).resource.in_namespace(binding.namespace, binding.name)
        text = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        body: JSONObject = {"metadata": {"annotations": {NUDGED_ANNOTATION: text}}}
        try:
            await self._connection.request(
                "PATCH", self._source.scope(binding.cluster) + path, body=body, content_type=MERGE_PATCH
            )
        except (APIError, UnreachableError) as error:
            _log.warning("%s: %s; cannot set annotation %s: %s", at.name, at.lack, NUDGED_ANNOTATION, error)
            self._waits.nudged(binding, well=False)
            return
        self._waits.nudged(binding, well=True)
        self._outdated.note_nudge(at.keys)
        message = (
            f"{at.lack}. OpenYurt 1.4 does not retry a write that was refused, for example while fleethook was away: "
            f"fleethook has set annotation {NUDGED_ANNOTATION}, so that its controller reconciles it again"
        )
        _log.warning("%s: %s", at.name, message)
        await self._reporter.record_event(binding, subject, "Warning", "OwnerNudged", message)
