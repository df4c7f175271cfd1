"""Caches the plans of subjects, within a number, until an object that they were compiled from changes."""

from collections import OrderedDict
from functools import partial
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.plan.shared_plan import FilledPlans, PoolPlan
from fleethook.engines.overrider.plan.subject_plans import LongCompilation, SubjectPlans
from fleethook.engines.overrider.subject.subject_members import same_input
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL

MAX_WEIGHT: Final = 500_000
"""The plans of 10,000 node pools with entries of their own take some 250 MiB, and so do 500,000 node pools that share
plans."""
_Key = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a subject."""


class PlanCache:
    """Compiles a plan at the first request, and again when one of its inputs was replaced.

    The store never changes an object in place, so the cache compares the identity of inputs. It needs no invalidation
    and never returns a stale plan. If only the status of an input changed, as it does whenever a Pod of a YurtAppSet
    becomes ready, the plans stay.

    Attributes:
        weight: Number of pools and plans, as in `SubjectPlans`.
    """

    def __init__(self, *, max_weight: int = MAX_WEIGHT) -> None:
        """Create an empty cache, which evicts the least recently requested subjects first."""
        self.weight = 0
        self._max_weight: Final = max_weight
        self._filled: Final = FilledPlans()
        self._subjects: Final[OrderedDict[_Key, SubjectPlans]] = OrderedDict()

    def plan(
        self,
        group_kind: GroupKind,
        subject: JSONObject,
        overrider: JSONObject | None,
        *,
        kind: str,
        pool: str,
        cluster: str,
        store: StoreView,
        kept: str = "",
    ) -> PoolPlan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``, with ``kept`` as for `SubjectPlans.plan`.

        Raises:
            SubjectError: The subject describes no workload.
            RenderError: An entry does not fit the template, or is invalid.
        """
        find = partial(self.find, group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store)
        while isinstance(found := find(kept=kept), LongCompilation):
            found.run()
        return found

    def find(
        self,
        group_kind: GroupKind,
        subject: JSONObject,
        overrider: JSONObject | None,
        *,
        kind: str,
        pool: str,
        cluster: str,
        store: StoreView,
        kept: str = "",
    ) -> PoolPlan | LongCompilation:
        """Return a plan as `plan` does, or its compilation if that would block the event loop."""
        plans = self.of_subject(group_kind, subject, overrider, cluster=cluster)
        node_pool = store.get(cluster, NODE_POOL, "", pool) if plans.depends_on_node_pools else None
        try:
            return plans.find(kind, pool, node_pool, kept=kept)
        finally:
            if plans.weight != plans.counted:
                self._account(plans)

    def _account(self, plans: SubjectPlans) -> None:
        """Count the plans of a subject, and evict other subjects, and then these plans, if the cache is full."""
        self.weight += plans.weight - plans.counted
        plans.counted = plans.weight
        while self.weight > self._max_weight and len(self._subjects) > 1:
            _, oldest = self._subjects.popitem(last=False)
            self.weight -= oldest.counted
        if self.weight > self._max_weight:
            plans.clear()
            self.weight = plans.counted = 0

    def of_subject(
        self, group_kind: GroupKind, subject: JSONObject, overrider: JSONObject | None, *, cluster: str
    ) -> SubjectPlans:
        """Return the plans of a subject with an overrider, new ones if an input changed."""
        key = _key_of(group_kind, subject, cluster=cluster)
        plans = self._subjects.get(key)
        if plans is not None:
            known_subject, known_overrider = plans.inputs
            if (known_subject is subject and known_overrider is overrider) or (
                same_input(known_subject, subject) and same_input(known_overrider, overrider)
            ):
                plans.inputs = (subject, overrider)
                self._subjects.move_to_end(key)
                return plans
            self.weight -= plans.counted
        plans = self._subjects[key] = SubjectPlans(group_kind, subject, overrider, filled=self._filled)
        self._subjects.move_to_end(key)
        return plans


def _key_of(group_kind: GroupKind, subject: JSONObject, *, cluster: str) -> _Key:
    metadata = subject["metadata"]
    return cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"]
