"""Finds the plan of a node pool, and caches plans, within a number, until an object changes that they depend on.

The plan of a pool is a plan that pools share, and the values of the pool: some hundred bytes. If a render needs the
full plan of a pool, the values are filled in. The hash and the undo of a pool are computed from text, without that.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation, PlanCompiler, SharedPlan
from fleethook.engines.overrider.plan.precompiled_patch import PrecompiledPatch
from fleethook.engines.overrider.render.undo_and_annotations import LastRender
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject
from fleethook.model.openyurt import NODE_POOL
from fleethook.workload_schema.pool_value_marks import Filler, PoolValues

# A render requests the same filled plan several times. All of them together take 3 MB at most.
MAX_FILLED: Final = 64
# A render needs the filler of its subject. Finding the marks again takes ten times as long as filling them, so the
# fillers of many subjects are cached: 25 MB at most.
MAX_FILLERS: Final = 512
# Filled patches: 16 MB at most.
MAX_PATCHES: Final = 2_048
# A plan takes as much memory as the hashes and values of so many pools that share it.
_PLAN_WEIGHT: Final = 50
MAX_WEIGHT: Final = 500_000
"""The plans of 10,000 node pools with entries of their own take some 250 MiB, and so do 500,000 node pools that share
plans."""
_Key = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a subject."""


_NOT_INPUT: Final = frozenset({"metadata", "status"})


def same_input(known: JSONObject | None, now: JSONObject | None) -> bool:
    """Return whether two versions of a subject, overrider or NodePool are equal, apart from status."""
    if known is now:
        return True
    if known is None or now is None or get_identity(known) != get_identity(now):
        return False
    return all(known.get(name) == now.get(name) for name in (known.keys() | now.keys()) - _NOT_INPUT)


def get_identity(document: JSONObject) -> tuple[JSON, ...]:
    """Return the members of an input's metadata that a plan may depend on."""
    metadata = document["metadata"]
    return tuple(metadata.get(name) for name in ("name", "namespace", "uid", "labels", "annotations"))


class FilledPlans:
    """A cache of filled plans, patches and fillers; the least recently used ones are evicted first."""

    def __init__(self) -> None:
        """Create an empty cache."""
        plan_filler = lru_cache(MAX_FILLERS)(lambda shared: Filler(msgspec.structs.astuple(shared.plan)))
        patch_filler = lru_cache(MAX_FILLERS)(lambda shared: Filler(shared.fast))

        def fill_plan(of: PoolPlan) -> Plan:
            return msgspec.structs.replace(Plan(*plan_filler(of.shared).fill(of.values)), digest=of.digest)

        def fill_patch(of: PoolPlan) -> PrecompiledPatch:
            patch: PrecompiledPatch = patch_filler(of.shared).fill(of.values)
            return patch.name_checks()

        self.get_plan: Final[Callable[[PoolPlan], Plan]] = lru_cache(MAX_FILLED)(fill_plan)
        """Returns the plan of a pool with its values."""
        self.get_patch: Final[Callable[[PoolPlan], PrecompiledPatch]] = lru_cache(MAX_PATCHES)(fill_patch)
        """Returns the patch of a pool with its values."""


class PoolPlan:
    """The plan of one pool: a shared plan and the values of the pool."""

    __slots__ = ("_filled", "digest", "shared", "undo_text", "values")

    def __init__(self, shared: SharedPlan, values: PoolValues, *, filled: FilledPlans) -> None:
        """Compute the hash and the undo of the pool."""
        self._filled: Final = filled
        self.shared: Final = shared
        self.values: Final = values
        """The values of the pool for the marks of the plan."""
        self.digest: Final = shared.digest(values)
        """See `Plan`."""
        text = shared.plan.undo_text
        self.undo_text: Final = values.fill_text(text) if shared.is_marked else text
        """See `Plan`."""

    @property
    def applies(self) -> bool:
        """Whether an entry applies to the pool."""
        return bool(self.shared.plan.steps)

    @property
    def leaves_replicas(self) -> bool:
        """Whether existing workloads keep their replicas, which another owner sets."""
        return self.shared.plan.leaves_replicas

    @property
    def next_render(self) -> LastRender:
        """The annotations that a render sets on a workload without changes by other writers."""
        return LastRender(self.digest, self.undo_text, self.shared.plan.template.tweaks)

    @property
    def fast(self) -> PrecompiledPatch | None:
        """The patch of a workload that matches the template, None if every workload must be rendered."""
        fast = self.shared.fast
        return fast if fast is None or not self.shared.is_marked else self._filled.get_patch(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for reviews of the pool's workload."""
        warnings = self.shared.plan.warnings
        return tuple(map(self.values.fill_text, warnings)) if self.shared.is_marked else warnings

    @property
    def rendered(self) -> JSONObject:
        """See `Plan`; takes less time than `full` if nothing else is needed."""
        rendered = self.shared.plan.create.rendered
        filled: JSONObject = self.values.fill(rendered) if self.shared.is_marked else rendered
        return filled

    @property
    def full(self) -> Plan:
        """The plan with the values of the pool in place of all marks."""
        return self._filled.get_plan(self) if self.shared.is_marked else self.shared.plan


_Outcome = PoolPlan | SubjectError | RenderError


class SubjectPlans:
    """The plans of one subject with one overrider.

    Attributes:
        inputs: The subject and the overrider.
        weight: The number of pools and plans, in units of the memory that a pool takes.
        counted: The weight that a cache has counted.
    """

    def __init__(
        self,
        group_kind: GroupKind,
        subject: JSONObject,
        overrider: JSONObject | None,
        *,
        filled: FilledPlans | None = None,
    ) -> None:
        """Index the subject and the overrider; `plan` compiles.

        Args:
            group_kind: YurtAppSet or YurtAppDaemon.
            subject: The subject as stored.
            overrider: The overrider in effect, or None for the bare template.
            filled: The cache of filled plans; None to create one.
        """
        self.inputs = (subject, overrider)
        self.weight = self.counted = 0
        self._filled: Final = filled or FilledPlans()
        self._compiler: Final = PlanCompiler(group_kind, subject, overrider, identity=get_identity(subject))
        self.depends_on_node_pools: Final = self._compiler.depends_on_node_pools
        """Whether the plans depend on NodePools."""
        self._pools: Final[dict[tuple[str, str], tuple[JSONObject | None, str, _Outcome]]] = {}

    @property
    def compiled(self) -> int:
        """Number of compiled plans."""
        return self._compiler.compiled

    def has_inputs(self, subject: JSONObject, overrider: JSONObject | None) -> bool:
        """Return whether the plans are those of a subject with an overrider, which may have another status now."""
        known_subject, known_overrider = self.inputs
        if known_subject is subject and known_overrider is overrider:
            return True
        if not (same_input(known_subject, subject) and same_input(known_overrider, overrider)):
            return False
        self.inputs, self._compiler.subject = (subject, overrider), subject
        return True

    def clear(self) -> None:
        """Drop all plans."""
        self._compiler.plans.clear()
        self._pools.clear()
        self.weight = 0

    def plan(self, kind: str, pool: str, node_pool: JSONObject | None) -> PoolPlan:
        """Return the plan for the subject's workload of ``kind`` in ``pool``.

        Args:
            kind: Deployment or StatefulSet.
            pool: The pool's name.
            node_pool: The NodePool object, if plans of the subject depend on it and it exists.

        Raises:
            SubjectError: The subject describes no workload.
            RenderError: An entry does not fit the template, or is invalid.
        """
        while isinstance(plan := self.find(kind, pool, node_pool), LongCompilation):
            plan.run()
        return plan

    def find(
        self, kind: str, pool: str, node_pool: JSONObject | None, *, kept_tweaks: str = ""
    ) -> PoolPlan | LongCompilation:
        """Return the plan of a pool as `plan` does, or its compilation if that would block the event loop.

        ``kept_tweaks`` are the tweaks of the last render (`encode_tweaks`), ``""`` for those that labels select now.
        """
        known = self._pools.get((kind, pool))
        if known is not None and known[1] == kept_tweaks and (known[0] is node_pool or same_input(known[0], node_pool)):
            return _unwrap(known[2])
        outcome: _Outcome
        try:
            compiled = self._compiler.find(kind, pool, node_pool, kept_tweaks=kept_tweaks)
            if isinstance(compiled, LongCompilation):
                return compiled
            outcome = PoolPlan(*compiled, filled=self._filled)
        except (SubjectError, RenderError) as error:
            outcome = error
        self._pools[kind, pool] = (node_pool, kept_tweaks, outcome)
        self.weight = len(self._pools) + _PLAN_WEIGHT * len(self._compiler.plans)
        return _unwrap(outcome)


def _unwrap(outcome: _Outcome) -> PoolPlan:
    if isinstance(outcome, PoolPlan):
        return outcome
    # Each raise of the cached exception would otherwise add frames to its traceback.
    raise outcome.with_traceback(None)


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
    ) -> PoolPlan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``.

        Raises:
            SubjectError: The subject describes no workload.
            RenderError: An entry does not fit the template, or is invalid.
        """
        find = partial(self.find, group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store)
        while isinstance(plan := find(), LongCompilation):
            plan.run()
        return plan

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
        kept_tweaks: str = "",
    ) -> PoolPlan | LongCompilation:
        """Return a plan as `SubjectPlans.find` does."""
        plans = self.of_subject(group_kind, subject, overrider, cluster=cluster)
        node_pool = store.get(cluster, NODE_POOL, "", pool) if plans.depends_on_node_pools else None
        try:
            return plans.find(kind, pool, node_pool, kept_tweaks=kept_tweaks)
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
            if plans.has_inputs(subject, overrider):
                self._subjects.move_to_end(key)
                return plans
            self.weight -= plans.counted
        plans = self._subjects[key] = SubjectPlans(group_kind, subject, overrider, filled=self._filled)
        self._subjects.move_to_end(key)
        return plans


def _key_of(group_kind: GroupKind, subject: JSONObject, *, cluster: str) -> _Key:
    metadata = subject["metadata"]
    return cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"]
