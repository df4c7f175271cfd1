"""Caches the plans of subjects, within a number of bytes, until an object that they were compiled from changes."""

import asyncio
import logging
import math
import sys
from collections import OrderedDict
from typing import Final

from fleethook.cluster.store import ObjectKey, Store, Stored, StoreView
from fleethook.engines.overrider.entries.patch_paths import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.plan.shared_plan import FilledPlans, PoolPlan
from fleethook.engines.overrider.plan.subject_plans import NotCompiledError, SubjectPlans
from fleethook.engines.overrider.subject.binding import Binding, find_binding, overriders_of
from fleethook.engines.overrider.subject.subject_parts import pools_of_subject, same_input, templates_of, workload_kinds
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object, count_values
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.work.pausing import Pauses, Work
from fleethook.work.turns import Turns

DEFAULT_CACHE_BYTES: Final = 256 << 20
# Subjects whose plans are compiled at the same time; the controller works on eight.
_MAX_RECENT: Final = 10

_DONE: Final = object()
_Key = tuple[str, str, str, str]
"""Cluster, namespace, kind and name of a subject."""


class PlanCache:
    """Compiles a plan at the first request, and again when one of its inputs was replaced.

    The store never changes an object in place, so the cache compares the identity of inputs. It needs no invalidation
    and never returns a stale plan. If only the status of an input changed, as it does whenever a Pod of a YurtAppSet
    becomes ready, the plans stay.

    Attributes:
        size: Estimated bytes of all plans.
        compiled: Number of compiled plans.
        evicted: How often the plans of a subject or of a pool were evicted.
    """

    def __init__(self, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        """Create an empty cache, which evicts the least recently requested subjects first."""
        self.size = 0
        self.compiled = 0
        self.evicted = 0
        self._max_bytes: Final = max_bytes
        self._filled: Final = FilledPlans()
        # Subjects that were requested lately, the last one at the end.
        self._recent: Final[OrderedDict[SubjectPlans, None]] = OrderedDict()
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
        compiles: bool = True,
    ) -> PoolPlan:
        """Return the plan for a subject's workload of ``kind`` in ``pool``.

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
            compiled_plan = known.find_plan(kind, pool, node_pool)
            if compiled_plan is not None:
                self._subjects.move_to_end(key)
                return compiled_plan
        plans = self._select(group_kind, subject, overrider, cluster=cluster)
        node_pool = _find_node_pool(plans, pool=pool, cluster=cluster, store=store)
        before, compiled = plans.size, plans.compiled
        try:
            plan = plans.plan_if_compiled(kind, pool, node_pool, compiles=compiles)
        finally:
            self._account(plans, before, compiled)
        if plan is None:
            raise NotCompiledError(self._prepare(plans, kind, pool, node_pool, key=key))
        return plan

    def prepare(
        self,
        group_kind: GroupKind,
        subject: JSONObject,
        overrider: JSONObject | None,
        *,
        kind: str,
        pool: str,
        cluster: str,
        store: StoreView,
    ) -> Work[None]:
        """Compile a plan in slices, so that `plan` finds it. Others may compile the same plan during a pause."""
        plans = self._select(group_kind, subject, overrider, cluster=cluster)
        node_pool = _find_node_pool(plans, pool=pool, cluster=cluster, store=store)
        key = _key_of(group_kind, subject, cluster=cluster)
        yield from self._prepare(plans, kind, pool, node_pool, key=key)

    def _prepare(
        self, plans: SubjectPlans, kind: str, pool: str, node_pool: JSONObject | None, *, key: _Key
    ) -> Work[None]:
        work = plans.prepare(kind, pool, node_pool)
        while True:
            before, compiled = plans.size, plans.compiled
            is_done = next(work, _DONE) is _DONE
            if self._subjects.get(key) is plans:  # Otherwise they were replaced or evicted during a pause.
                self._account(plans, before, compiled)
            if is_done:
                return
            yield

    def _select(
        self, group_kind: GroupKind, subject: JSONObject, overrider: JSONObject | None, *, cluster: str
    ) -> SubjectPlans:
        plans = self.of_subject(group_kind, subject, overrider, cluster=cluster)
        if plans not in self._recent and len(self._recent) == _MAX_RECENT:
            self._recent.popitem(last=False)[0].forget_bare()
        self._recent[plans] = None
        return plans

    def _account(self, plans: SubjectPlans, before: int, compiled: int) -> None:
        """Add the growth of plans since ``before`` and ``compiled``, and evict others if the cache is full."""
        self.compiled += plans.compiled - compiled
        if plans.size != before:
            self.size += plans.size - before
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
            self.size -= plans.size
        plans = self._subjects[key] = SubjectPlans(group_kind, subject, overrider, filled=self._filled)
        self._subjects.move_to_end(key)
        self.size += plans.size
        return plans

    def _make_room(self, requested: SubjectPlans) -> None:
        """Evict other subjects, and then pools of the requested one, until the cache is within its limit."""
        while self.size > self._max_bytes and len(self._subjects) > 1:
            _, oldest = self._subjects.popitem(last=False)
            self.size -= oldest.size
            self.evicted += 1
        more = True
        while more and self.size > self._max_bytes:
            before = requested.size
            more = requested.drop_oldest()
            self.size -= before - requested.size
            self.evicted += 1


def _key_of(group_kind: GroupKind, subject: JSONObject, *, cluster: str) -> _Key:
    metadata = subject["metadata"]
    return cluster, metadata.get("namespace") or "", group_kind.kind, metadata["name"]


def _find_node_pool(plans: SubjectPlans, *, pool: str, cluster: str, store: StoreView) -> JSONObject | None:
    """Return the NodePool object, None if plans do not depend on it."""
    found: JSONObject | None = store.get(cluster, NODE_POOL, "", pool) if plans.depends_on_node_pools else None
    return found


_log: Final = logging.getLogger(__name__)

# About 12 s of CPU, while the former replica answers. The server compiles the other plans once it is ready, between
# reviews. Then a review compiles its own plan, in 3 ms, and runs of the garbage collector take up to 50 ms.
MAX_PLANS_BEFORE_READY: Final = 5_000
# Most subjects need one or two plans for all of their pools. If a subject has more, reviews compile the others.
MAX_PLANS_OF_SUBJECT: Final = 32
# The rest of the cache is for plans that reviews request, for example of subjects with many different pools.
_CACHE_SHARE: Final = 0.8
# A ready server compiles for some milliseconds and rests, so that most reviews find it idle.
_REST_SECONDS: Final = 0.01
# Looking up a compiled plan takes 20 µs.
_SLICE: Final = 100


class PlanWarmup:
    """Compiles the plans of new and changed subjects, those with the most node pools first."""

    def __init__(self, store: Store, plans: PlanCache, turns: Turns, *, max_bytes: int) -> None:
        """Subscribe to the store.

        Args:
            store: Overriders, subjects and node pools.
            plans: Receives the plans.
            turns: The turns that long work shares with reviews.
            max_bytes: The size of the cache of plans.
        """
        self._store: Final = store
        self._plans: Final = plans
        self._turns: Final = turns
        self._max_bytes: Final = int(max_bytes * _CACHE_SHARE)
        self._changed: Final = asyncio.Event()
        self._ready: Final = asyncio.Event()
        # The subjects to compile, with their numbers of node pools.
        self._pending: Final[dict[Binding, int]] = {}
        store.subscribe(self._handle_change)

    def _handle_change(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        is_overrider = key.group_kind == YURT_APP_OVERRIDER
        if after is None or not (is_overrider or key.group_kind in SUBJECT_KINDS) or same_input(before, after):
            return
        binding = find_binding(key.cluster, after) if is_overrider else key
        if binding is not None:
            self._pending[binding] = _count_pools(self._store.get(*binding))
            self._changed.set()

    @property
    def is_ready(self) -> bool:
        """Whether `prepare` has finished once."""
        return self._ready.is_set()

    async def prepare(self) -> None:
        """Compile plans until all, or `MAX_PLANS_BEFORE_READY` more, are compiled."""
        await self._compile_pending(self._plans.compiled + MAX_PLANS_BEFORE_READY, rest=0.0)
        self._ready.set()

    async def follow(self) -> None:
        """After `prepare`, compile the other plans, and then those of changed subjects, until cancelled."""
        await self._ready.wait()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._compile_pending(math.inf, rest=_REST_SECONDS)

    async def _compile_pending(self, last: float, *, rest: float) -> None:
        while self._pending and self._plans.compiled < last:
            for binding in sorted(self._pending, key=self._pending.__getitem__, reverse=True):
                if self._plans.compiled >= last:
                    return
                self._pending.pop(binding, None)
                try:
                    await self._turns.run(self._compile(binding))
                except Exception:  # noqa: BLE001 - nothing but speed depends on this work
                    # The review that needs the plan reports the error. Other subjects do not depend on it.
                    _log.exception("plans of %s are not compiled ahead", binding)
                await asyncio.sleep(rest)

    def _compile(self, binding: Binding) -> Work[None]:
        """Compile the plans of a subject. A change during a pause ends the work, and queues the subject again."""
        cluster, group_kind, namespace, name = binding
        subject = self._store.get(*binding)
        overriders = overriders_of(self._store, cluster=cluster, namespace=namespace, group_kind=group_kind, name=name)
        if subject is None or not overriders:
            return
        if count_values(templates_of(subject), limit=MAX_TEMPLATE_VALUES) > MAX_TEMPLATE_VALUES:
            return
        pools = pools_of_subject(group_kind, subject, cluster=cluster, store=self._store)
        yield
        last, pauses = self._plans.compiled + MAX_PLANS_OF_SUBJECT, Pauses(_SLICE)
        for kind in workload_kinds(subject):
            for pool in pools:
                if binding in self._pending or self._plans.compiled >= last or self._plans.size >= self._max_bytes:
                    return
                yield from self._plans.prepare(
                    group_kind, subject, overriders[0], kind=kind, pool=pool, cluster=cluster, store=self._store
                )
                if pauses.due():
                    yield


def _count_pools(subject: JSONObject | None) -> int:
    """Return the number of node pools that a subject lists; one that selects them by label may have any number."""
    spec = as_object((subject or {}).get("spec"))
    listed = as_object(spec.get("topology")).get("pools") or spec.get("pools")
    return len(listed) if isinstance(listed, list) else sys.maxsize
