"""Compiles plans before a server is ready, and those of changed subjects later, ahead of their reviews."""

import asyncio
import logging
import math
import sys
from typing import Final

from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.entries.patch_paths import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding, find_binding, overriders_of
from fleethook.engines.overrider.subject.subject_members import (
    pools_of_subject,
    same_input,
    templates_of,
    workload_kinds,
)
from fleethook.model.json import JSONObject, as_object, count_values
from fleethook.model.openyurt import SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.work.pausing import Pauses, Work
from fleethook.work.turns import Turns

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
