"""Compiles the plans of subjects, and caches them, within a number, until an object changes that they depend on.

Pools of a subject share one plan if the same entries apply to them, and they differ only by their names and replicas. A
pool then adds some hundred bytes: its hash, its values and a reference to the plan.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.entry_steps import RenderError, compile_steps
from fleethook.engines.overrider.plan.plan import BarePlan, compile_bare, compile_plan_of_steps
from fleethook.engines.overrider.plan.shared_plan import FilledPlans, PoolPlan, SharedPlan, find_names
from fleethook.engines.overrider.rules.item_rules import replicas_problem
from fleethook.engines.overrider.subject.subject_members import (
    SetSelections,
    count_selections,
    decode_tweaks,
    depends_on_node_pools,
    get_identity,
    is_v1beta1,
    same_input,
    templates_of,
    topology,
    tweaks_of,
)
from fleethook.engines.overrider.template.node_affinity import (
    PoolSettings,
    SubjectError,
    encode_settings,
    mark_settings,
    workload_prefix,
)
from fleethook.engines.overrider.template.template import lacks_pool, subject_name
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_list, as_object, count_values
from fleethook.model.openyurt import NODE_POOL, NODEPOOL_TOKEN, TWEAK_POOL_TOKEN, YURT_APP_DAEMON, YURT_APP_SET
from fleethook.workload_schema.value_marks import POOL_MARK, PoolValues, has_mark, is_safe_name

# A plan takes as much memory as the hashes and values of so many pools that share it.
_PLAN_WEIGHT: Final = 50
Outcome = PoolPlan | SubjectError | RenderError
_Shared = SharedPlan | SubjectError | RenderError | object
"""The plan or the error that pools of one configuration share; `NAMED_AFTER_POOL` if they share none."""


# A compilation takes some 4 µs for each value of the template, so 12 ms, and as long as 8 values for each value of the
# entries.
_MAX_ON_LOOP: Final = 3_000
_ENTRY_VALUE: Final = 8


class LongCompilation(NamedTuple):
    """A compilation that would block the event loop. Request the plan again after it."""

    run: Callable[[], None]
    """Compiles the plan; may run in a thread."""


class _Configuration(NamedTuple):
    """The settings of a pool, with marks in place of its own values; equal for pools that share a plan."""

    key: Hashable
    pool: str
    """The name to compile for: the mark, or the name of the pool."""
    entries: tuple[int, ...]
    """The numbers of the entries that apply."""
    config: JSONObject | None
    """The settings of the pool as the subject has them."""
    node_pool: JSONObject | None
    replicas: int | None
    tweaks: tuple[int, ...]
    """The numbers of the tweaks of a YurtAppSet v1beta1 that apply to the pool."""
    placement: bytes
    """The pool's settings as text, with the mark for its name; empty if the pool shares no plan."""


class SubjectPlans:
    """The plans of one subject with one overrider.

    Attributes:
        inputs: The subject and the overrider.
        compiled: Number of compiled plans.
        weight: The number of pools and plans, in units of the memory that a pool takes.
        counted: The weight that a cache has counted.
        depends_on_node_pools: Whether the plans depend on NodePools.
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
        self.compiled = self.weight = self.counted = 0
        self._filled: Final = filled or FilledPlans()
        self._group_kind: Final = group_kind
        entries = as_object(overrider or {}).get("entries")
        self._entries: Final = entries
        self._selection: Final = EntrySelection(entries)
        self.depends_on_node_pools: Final = self._selection.uses_labels or depends_on_node_pools(group_kind, subject)
        self._has_mark: Final = has_mark((get_identity(subject), subject.get("spec"), entries))
        text = msgspec.json.encode((entries, tweaks_of(subject)))
        self._has_pool_token: Final = NODEPOOL_TOKEN.encode() in text or TWEAK_POOL_TOKEN.encode() in text
        self._selections: Final = SetSelections(subject) if is_v1beta1(subject) else None
        with_topology = group_kind == YURT_APP_SET and self._selections is None
        self._configs: Final = topology(subject.get("spec")) if with_topology else {}
        self._bare: tuple[Hashable, BarePlan] | None = None
        self._plans: Final[dict[Hashable, _Shared]] = {}
        self._pools: Final[dict[tuple[str, str], tuple[JSONObject | None, str, Outcome]]] = {}

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()
        self._pools.clear()
        self.weight = 0

    def plan(self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str = "") -> PoolPlan:
        """Return the plan for the subject's workload of ``kind`` in ``pool``.

        Args:
            kind: Deployment or StatefulSet.
            pool: The pool's name.
            node_pool: The NodePool object, if plans of the subject depend on it and it exists.
            kept: The tweaks that the workload remembers (`encode_tweaks`), ``""`` for those that labels select now.

        Raises:
            SubjectError: The subject describes no workload.
            RenderError: An entry does not fit the template, or is invalid.
        """
        while isinstance(found := self.find(kind, pool, node_pool, kept=kept), LongCompilation):
            found.run()
        return found

    def find(self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str = "") -> PoolPlan | LongCompilation:
        """Return the plan of a pool as `plan` does, or its compilation if that would block the event loop."""
        known = self._pools.get((kind, pool))
        if known is not None and known[1] == kept and (known[0] is node_pool or same_input(known[0], node_pool)):
            return _unwrap(known[2])
        outcome = self._find_outcome(kind, pool, node_pool, kept=kept)
        if isinstance(outcome, LongCompilation):
            return outcome
        self._pools[kind, pool] = (node_pool, kept, outcome)
        self.weight = len(self._pools) + _PLAN_WEIGHT * len(self._plans)
        return _unwrap(outcome)

    def _find_outcome(
        self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str
    ) -> Outcome | LongCompilation:
        """Return the plan or the error of a pool, or its compilation if that would block the event loop."""
        if not self._has_pool(pool, node_pool):
            return SubjectError(lacks_pool(self._group_kind, self.inputs[0], pool))
        replicas = as_object(self._configs.get(pool)).get("replicas")
        if replicas is not None and (problem := replicas_problem(replicas)) is not None:
            name = subject_name(self._group_kind, self.inputs[0])
            return SubjectError(f"{name}: replicas of pool {pool!r} in spec.topology.pools {problem}")
        of = self._configure(kind, pool, node_pool, kept)
        shared = self._get_shared(of, kind)
        if shared is NAMED_AFTER_POOL or (isinstance(shared, SharedPlan) and shared.confuses(pool)):
            shared = self._get_shared(of._replace(key=(pool, of.key), pool=pool), kind)
        if isinstance(shared, LongCompilation):
            return shared
        values = PoolValues(pool, of.replicas)
        if isinstance(shared, SharedPlan):
            return PoolPlan(shared, values, filled=self._filled)
        if isinstance(shared, RenderError):
            return RenderError(values.fill_text(shared.field), values.fill_text(shared.reason))
        assert isinstance(shared, SubjectError)
        return SubjectError(values.fill_text(str(shared)))

    def _has_pool(self, pool: str, node_pool: JSONObject | None) -> bool:
        if self._selections is not None:
            return self._selections.selects(pool, node_pool)
        return self._group_kind != YURT_APP_SET or pool in self._configs

    def _get_shared(self, of: _Configuration, kind: str) -> "_Shared | LongCompilation":
        """Return the plan or the error of a configuration, or its compilation if that would block the event loop."""
        known = self._plans.get(of.key)
        if known is not None:
            return known
        if self._is_long(of):
            return LongCompilation(partial(self._compile, of, kind))
        self._compile(of, kind)
        return self._plans[of.key]

    def _is_long(self, of: _Configuration) -> bool:
        subject = self.inputs[0]
        parts = [templates_of(subject), tweaks_of(subject), of.config]
        values = count_values(parts, limit=_MAX_ON_LOOP) * count_selections(subject)
        entries = [as_list(self._entries)[number] for number in of.entries]
        return values + _ENTRY_VALUE * count_values(entries, limit=_MAX_ON_LOOP) > _MAX_ON_LOOP

    def _compile(self, of: _Configuration, kind: str) -> None:
        """Compile the plan of a configuration, which another caller may have compiled in the meantime."""
        if of.key not in self._plans:
            self._plans[of.key] = self._compile_shared(of, kind)
            self.compiled += 1

    def _compile_shared(self, of: _Configuration, kind: str) -> "_Shared":
        try:
            bare = self._compile_bare(of, kind)
            steps = compile_steps(self._entries, of.pool, applying=of.entries)
            plan = compile_plan_of_steps(steps, self.inputs[0], bare=bare, kind=kind, pool=of.pool)
            shared = SharedPlan(plan, kind=kind, pool=of.pool)
            # A tweak may name an element of the template after the pool. Then entries find it only in that pool.
            in_template = plan.of_v1beta1 and plan.steps and of.pool == POOL_MARK and find_names((plan.create.bare,))
        except (SubjectError, RenderError) as error:
            # An entry that names the pool may fit in another pool, and the error contains the name.
            is_named = of.pool == POOL_MARK and self._has_pool_token
            return NAMED_AFTER_POOL if is_named else error.with_traceback(None)
        return NAMED_AFTER_POOL if shared.names is None or (in_template and in_template[0]) else shared

    def _compile_bare(self, of: _Configuration, kind: str) -> BarePlan:
        """Return the bare plan of a configuration; the last one is cached."""
        key, known = (kind, of.pool, of.tweaks, of.placement), self._bare
        if known is not None and known[0] == key and of.placement:
            return known[1]
        config = mark_settings(of.config) if of.pool == POOL_MARK else of.config
        settings = PoolSettings(config, of.tweaks)
        bare = compile_bare(
            self._group_kind, self.inputs[0], kind=kind, pool=of.pool, node_pool=of.node_pool, settings=settings
        )
        self._bare = (key, bare)
        return bare

    def _configure(self, kind: str, pool: str, node_pool: JSONObject | None, kept: str) -> _Configuration:
        config = self._configs.get(pool)
        taints = as_object(as_object(node_pool or {}).get("spec")).get("taints")
        replicas = None if config is None else config.get("replicas")
        tweaks = decode_tweaks(self.inputs[0], kept)
        if tweaks is None:
            tweaks = () if self._selections is None else self._selections.tweaks(pool, node_pool)
        # Only workloads of a YurtAppDaemon tolerate the taints of their pools.
        taints = taints if self._group_kind == YURT_APP_DAEMON else None
        name, entries = self.inputs[0]["metadata"]["name"], self._selection.applying(pool, node_pool)
        if not is_safe_name(pool) or workload_prefix(name, pool) != f"{name}-{pool}-" or self._has_mark:
            key: Hashable = (kind, pool, tweaks, entries, msgspec.json.encode(taints))
            return _Configuration(key, pool, entries, config, node_pool, replicas, tweaks, b"")
        placement = encode_settings(config, taints)
        key = (kind, entries, tweaks, placement)
        return _Configuration(key, POOL_MARK, entries, config, node_pool, replicas, tweaks, placement)


NAMED_AFTER_POOL: Final = object()
"""A member or an element is named after the pool. In some pool, the template may have another element of that name."""


def _unwrap(outcome: Outcome) -> PoolPlan:
    if isinstance(outcome, PoolPlan):
        return outcome
    # Each raise of the cached exception would otherwise add frames to its traceback.
    raise outcome.with_traceback(None)


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
