"""Caches the plans of subjects, within a number, until an object that they were compiled from changes."""

from collections import OrderedDict
from typing import Final

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.plan.shared_plan import FilledPlans, PoolPlan
from fleethook.engines.overrider.plan.subject_plans import NotCompiledError, SubjectPlans
from fleethook.engines.overrider.subject.subject_members import same_input
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL
from fleethook.work.pausing import Work

MAX_WEIGHT: Final = 500_000
"""The plans of 10,000 node pools with entries of their own take some 250 MiB, and so do 500,000 node pools that share
plans."""
_DONE: Final = object()
_Key = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a subject."""


class PlanCache:
    """Compiles a plan at the first request, and again when one of its inputs was replaced.

    The store never changes an object in place, so the cache compares the identity of inputs. It needs no invalidation
    and never returns a stale plan. If only the status of an input changed, as it does whenever a Pod of a YurtAppSet
    becomes ready, the plans stay.

    Attributes:
        compiled: Number of compiled plans.
        weight: Number of pools and plans, as in `SubjectPlans.weight`.
    """

    def __init__(self, *, max_weight: int = MAX_WEIGHT) -> None:
        """Create an empty cache, which evicts the least recently requested subjects first."""
        self.compiled = 0
        self.weight = 0
        self._max_weight: Final = max_weight
        self._filled: Final = FilledPlans()
        self._subjects: Final[OrderedDict[_Key, SubjectPlans]] = OrderedDict()

    def plan(  # noqa: PLR0913 - all inputs of a plan, by name
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
        compiles: bool = True,
    ) -> PoolPlan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``, with ``kept`` as for `SubjectPlans.plan`.

        Raises:
            SubjectError: The subject describes no workload.
            RenderError: An entry does not fit the template, or is invalid.
            NotCompiledError: The plan has to be compiled, and ``compiles`` is False.
        """
        key = _key_of(group_kind, subject, cluster=cluster)
        # The usual case: nothing has changed since the last review of the pool.
        known = self._subjects.get(key)
        if known is not None and known.inputs[0] is subject and known.inputs[1] is overrider:
            node_pool = _find_node_pool(known, pool=pool, cluster=cluster, store=store)
            compiled_plan = known.find_plan(kind, pool, node_pool, kept=kept)
            if compiled_plan is not None:
                self._subjects.move_to_end(key)
                return compiled_plan
        plans = self.of_subject(group_kind, subject, overrider, cluster=cluster)
        node_pool = _find_node_pool(plans, pool=pool, cluster=cluster, store=store)
        before, compiled = plans.weight, plans.compiled
        try:
            plan = plans.plan_if_compiled(kind, pool, node_pool, kept=kept, compiles=compiles)
        finally:
            self._account(plans, before, compiled)
        if plan is None:
            raise NotCompiledError(self._prepare(plans, kind, pool, node_pool, key=key, kept=kept))
        return plan

    def _prepare(
        self, plans: SubjectPlans, kind: str, pool: str, node_pool: JSONObject | None, *, key: _Key, kept: str = ""
    ) -> Work[None]:
        work = plans.prepare(kind, pool, node_pool, kept=kept)
        while True:
            before, compiled = plans.weight, plans.compiled
            is_done = next(work, _DONE) is _DONE
            if self._subjects.get(key) is plans:  # Otherwise they were replaced or evicted during a pause.
                self._account(plans, before, compiled)
            if is_done:
                return
            yield

    def _account(self, plans: SubjectPlans, before: int, compiled: int) -> None:
        """Add the growth of plans since ``before`` and ``compiled``, and evict others if the cache is full."""
        self.compiled += plans.compiled - compiled
        if plans.weight != before:
            self.weight += plans.weight - before
            self._make_room(plans)

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
            self.weight -= plans.weight
        plans = self._subjects[key] = SubjectPlans(group_kind, subject, overrider, filled=self._filled)
        self._subjects.move_to_end(key)
        return plans

    def _make_room(self, requested: SubjectPlans) -> None:
        """Evict other subjects, and then the requested one, until the cache is within its limit."""
        while self.weight > self._max_weight and len(self._subjects) > 1:
            _, oldest = self._subjects.popitem(last=False)
            self.weight -= oldest.weight
        if self.weight > self._max_weight:
            requested.clear()
            self.weight = 0


def _key_of(group_kind: GroupKind, subject: JSONObject, *, cluster: str) -> _Key:
    metadata = subject["metadata"]
    return cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"]


def _find_node_pool(plans: SubjectPlans, *, pool: str, cluster: str, store: StoreView) -> JSONObject | None:
    """Return the NodePool object, None if plans do not depend on it."""
    found: JSONObject | None = store.get(cluster, NODE_POOL, "", pool) if plans.depends_on_node_pools else None
    return found
