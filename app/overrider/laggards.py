"""Workloads without an override that lack what their template says: the writes of their owner may have been refused.

Workloads with an override are found by their hash. These carry none, so they are compared when all workloads are gone
through, and only if their subject has an overrider: without one, fleethook refuses no write.
"""

from collections.abc import Iterable
from typing import Final

from app.model.json import JSONObject
from app.overrider.assess import AS_WANTED, binding_of, find_plan, hash_of
from app.overrider.owner_progress import lags_behind
from app.overrider.plans import PlanCache
from app.overrider.situation import find_overriders
from app.overrider.steps import RenderError
from app.overrider.template import SubjectError
from app.overrider.workloads import Workloads
from app.store import ObjectKey, StoreView


class Laggards:
    """The workloads that were behind at the last look and have not changed since."""

    def __init__(self, workloads: Workloads, *, store: StoreView, plans: PlanCache) -> None:
        """Prepare.

        Args:
            workloads: The workloads.
            store: Overriders, subjects and node pools.
            plans: What was compiled from them.
        """
        self._workloads: Final = workloads
        self._store: Final = store
        self._plans: Final = plans
        self._behind: Final[set[ObjectKey]] = set()

    def look(self, key: ObjectKey, document: JSONObject) -> None:
        """Compare a whole workload, as the apiserver holds it, with its template."""
        self._behind.discard(key)
        if self._is_behind(key, document):
            self._behind.add(key)

    def changed(self, key: ObjectKey) -> None:
        """Forget what was found about a workload."""
        self._behind.discard(key)

    def any(self, keys: Iterable[ObjectKey]) -> bool:
        """Return whether one of these workloads is behind."""
        return any(key in self._behind for key in keys)

    def _is_behind(self, key: ObjectKey, document: JSONObject) -> bool:
        workload = self._workloads.get(key)
        if workload is None or hash_of(workload) or (binding := binding_of(workload, key.cluster)) is None:
            return False
        overriders = find_overriders(self._store, binding)
        if not overriders:
            return False
        try:
            plan = find_plan(
                workload, binding, overriders[0], kind=key.group_kind.kind, store=self._store, plans=self._plans
            )
        except (SubjectError, RenderError):
            return False
        return not plan.applies and lags_behind(document, plan, AS_WANTED)
