"""Compiles the plans of one subject; its pools share the common parts.

Pools of a subject share one plan if the same entries apply to them, and they differ only by their names and replicas. A
pool then adds some hundred bytes: its hash, its values and a reference to the plan.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.entries.entry_steps import RenderError, compile_steps
from fleethook.engines.overrider.plan.plan import BarePlan, compile_bare, compile_steps_in_slices
from fleethook.engines.overrider.plan.shared_plan import FilledPlans, PoolPlan, SharedPlan, find_names
from fleethook.engines.overrider.rules.value_shapes import replicas_problem
from fleethook.engines.overrider.subject.subject_members import (
    SetSelections,
    decode_tweaks,
    depends_on_node_pools,
    get_identity,
    is_v1beta1,
    same_input,
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
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NODEPOOL_TOKEN, TWEAK_POOL_TOKEN, YURT_APP_DAEMON, YURT_APP_SET
from fleethook.work.pausing import Work, do_at_once
from fleethook.workload_schema.value_marks import POOL_MARK, PoolValues, has_mark, is_safe_name

# A plan takes as much memory as the hashes and values of so many pools that share it.
_PLAN_WEIGHT: Final = 50
Outcome = PoolPlan | SubjectError | RenderError
_Shared = SharedPlan | SubjectError | RenderError | object
"""The plan or the error that pools of one configuration share; `NAMED_AFTER_POOL` if they share none."""


class NotCompiledError(Exception):
    """The requested plan is not compiled, and the caller does not want to compile it.

    Attributes:
        work: Compiles the plan in slices.
    """

    def __init__(self, work: Work[None]) -> None:
        """Store the work that compiles the plan."""
        super().__init__("the plan is not compiled")
        self.work: Final = work


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
        self.compiled = 0
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
        # The configuration of the last requested pool: `prepare` compiles its plan, and `plan` looks it up next.
        self._configured: tuple[str, str, str, JSONObject | None, _Configuration] | None = None
        self._plans: Final[dict[Hashable, _Shared]] = {}
        # Several reviews and the controller may need the same plan at once. Each of them does slices of the same work.
        self._compiling: Final[dict[Hashable, Work[_Shared]]] = {}
        self._pools: Final[dict[tuple[str, str], tuple[JSONObject | None, str, Outcome]]] = {}

    @property
    def weight(self) -> int:
        """The number of pools and plans, in units of the memory that a pool takes."""
        return len(self._pools) + _PLAN_WEIGHT * len(self._plans)

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()
        self._pools.clear()

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
        plan = self.plan_if_compiled(kind, pool, node_pool, kept=kept, compiles=True)
        assert plan is not None
        return plan

    def find_plan(self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str = "") -> PoolPlan | None:
        """Return the plan of a pool that was requested before with the same NodePool object and tweaks, else None."""
        known = self._pools.get((kind, pool))
        if known is None or known[0] is not node_pool or known[1] != kept or not isinstance(known[2], PoolPlan):
            return None
        return known[2]

    def plan_if_compiled(
        self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str = "", compiles: bool = False
    ) -> PoolPlan | None:
        """Return the plan of a pool as `plan` does, None if it has to be compiled and ``compiles`` is False."""
        known = self._pools.get((kind, pool))
        if known is not None and known[1] == kept and (known[0] is node_pool or same_input(known[0], node_pool)):
            return _unwrap(known[2])
        outcome = self._find_outcome(kind, pool, node_pool, kept=kept, compiles=compiles)
        if outcome is None:
            return None
        self._pools[kind, pool] = (node_pool, kept, outcome)
        return _unwrap(outcome)

    def _find_outcome(
        self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str, compiles: bool
    ) -> Outcome | None:
        """Return the plan or the error of a pool, None if it has to be compiled and ``compiles`` is False."""
        if not self._has_pool(pool, node_pool):
            return SubjectError(lacks_pool(self._group_kind, self.inputs[0], pool))
        replicas = as_object(self._configs.get(pool)).get("replicas")
        if replicas is not None and (problem := replicas_problem(replicas)) is not None:
            name = subject_name(self._group_kind, self.inputs[0])
            return SubjectError(f"{name}: replicas of pool {pool!r} in spec.topology.pools {problem}")
        work = self._find_shared(kind, pool, node_pool, kept)
        try:
            next(work)
        except StopIteration as end:
            of, shared = end.value
        else:
            if not compiles:
                return None
            of, shared = do_at_once(work)
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

    def prepare(self, kind: str, pool: str, node_pool: JSONObject | None, *, kept: str = "") -> Work[None]:
        """Compile the plan of a pool in slices, so that `plan` finds it; arguments as in `plan`."""
        known = self._pools.get((kind, pool))
        if (known is None or known[1] != kept) and self._has_pool(pool, node_pool):
            yield from self._find_shared(kind, pool, node_pool, kept)

    def _find_shared(self, kind: str, pool: str, node_pool: JSONObject | None, kept: str) -> "Work[_Found]":
        """Return the configuration of a pool with its plan or error. It pauses only if it has to compile them."""
        of = self._get_configuration(kind, pool, node_pool, kept)
        shared = self._plans.get(of.key) or (yield from self._compile_together(of, kind))
        if shared is NAMED_AFTER_POOL or (isinstance(shared, SharedPlan) and shared.confuses(pool)):
            of = of._replace(key=(pool, of.key), pool=pool)
            shared = self._plans.get(of.key) or (yield from self._compile_together(of, kind))
        return of, shared

    def _compile_together(self, of: _Configuration, kind: str) -> "Work[_Shared]":
        """Return the plan or the error of a configuration, which concurrent callers compile once.

        Each of them does the next slice in its turn, so nobody waits for a caller that has given up.
        """
        yield
        while (known := self._plans.get(of.key)) is None:
            work = self._compiling.setdefault(of.key, self._compile_shared(of, kind))
            is_paused = False
            try:
                next(work)
                is_paused = True
            except StopIteration as end:
                return self._share(of, end.value)
            finally:
                if not is_paused:
                    del self._compiling[of.key]
            yield
        return known

    def _share(self, of: _Configuration, shared: "_Shared") -> "_Shared":
        """Store the plan or the error of a configuration, and return it."""
        self.compiled += 1
        self._plans[of.key] = shared
        return shared

    def _compile_shared(self, of: _Configuration, kind: str) -> "Work[_Shared]":
        try:
            bare = self._compile_bare(of, kind)
            yield
            steps = compile_steps(self._entries, of.pool, applying=of.entries)
            work = compile_steps_in_slices(steps, self.inputs[0], bare=bare, kind=kind, pool=of.pool)
            plan = yield from work
            shared = SharedPlan(plan, kind=kind, pool=of.pool)
            # A tweak may name an element of the template after the pool. Then entries find it only in that pool.
            in_template = plan.of_v1beta1 and plan.steps and of.pool == POOL_MARK and find_names((plan.bare,))
        except (SubjectError, RenderError) as error:
            # An entry that names the pool may fit in another pool, and the error contains the name.
            is_named = of.pool == POOL_MARK and self._has_pool_token
            return NAMED_AFTER_POOL if is_named else error.with_traceback(None)
        return NAMED_AFTER_POOL if shared.names is None or (in_template and in_template[0]) else shared

    def _compile_bare(self, of: _Configuration, kind: str) -> BarePlan:
        """Return the bare plan of a configuration; the last one is cached."""
        key = (kind, of.pool, of.tweaks, of.placement)
        if self._bare is None or self._bare[0] != key or not of.placement:
            config = mark_settings(of.config) if of.pool == POOL_MARK else of.config
            settings = PoolSettings(config, of.tweaks)
            bare = compile_bare(
                self._group_kind, self.inputs[0], kind=kind, pool=of.pool, node_pool=of.node_pool, settings=settings
            )
            self._bare = (key, bare)
        return self._bare[1]

    def _get_configuration(self, kind: str, pool: str, node_pool: JSONObject | None, kept: str) -> _Configuration:
        known = self._configured
        if known is None or known[:3] != (kind, pool, kept) or known[3] is not node_pool:
            made = self._configure(kind, pool, node_pool, kept)
            known = self._configured = (kind, pool, kept, node_pool, made)
        return known[4]

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
        placement = encode_settings(config, taints, pool)
        key = (kind, entries, tweaks, placement)
        return _Configuration(key, POOL_MARK, entries, config, node_pool, replicas, tweaks, placement)


_Found = tuple[_Configuration, _Shared]
NAMED_AFTER_POOL: Final = object()
"""A member or an element is named after the pool. In some pool, the template may have another element of that name."""


def _unwrap(outcome: Outcome) -> PoolPlan:
    if isinstance(outcome, PoolPlan):
        return outcome
    # Each raise of the cached exception would otherwise add frames to its traceback.
    raise outcome.with_traceback(None)
