"""Finds workloads without an override that lack members of their template, because a write of their owner was refused.

A workload with an override has a hash, which shows that it is outdated. These workloads have none, so each resync
compares them with their template, and only if their subject has an overrider. Without an overrider, fleethook refuses
no write.
"""

from collections.abc import Sequence
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.drift import NO_DRIFT, find_plan
from fleethook.engines.overrider.controller.subject_state import find_overriders
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.openyurt.owner_controller import Lag, find_lag
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.binding import Binding, binding_of, hash_of
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import REVISION_LABEL

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

        If a workload that is not outdated has the same revision, the owner has written both, and another client has
        changed this one since. It is not outdated. A workload with an override is a weaker proof, because an entry may
        hide the change of the template. Then one nudge shows whether the owner has something to write.
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
        try:
            plan = find_plan(
                workload, binding, overriders[0], kind=key.group_kind.kind, store=self._store, plans=self._plans
            )
        except (SubjectError, RenderError):
            return None
        return None if plan.applies else find_lag(document, plan, NO_DRIFT)
