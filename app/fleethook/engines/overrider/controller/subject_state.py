"""Collects the state of a subject: its overriders, its workloads and its node pools."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.overrider_conditions import find_no_controller
from fleethook.engines.overrider.controller.workload_watch import Workloads
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import (
    DAEMONS_WITHOUT_CONTROLLER,
    absent_pools,
    pools_of_subject,
)
from fleethook.engines.overrider.subject.workload_owner import (
    Binding,
    Orphan,
    find_owner_in,
    hash_of,
    is_former,
    pool_of,
)
from fleethook.model.json import JSONObject

# Workloads between two turns of other requests, at some 3 µs each.
_SORTED_AT_ONCE = 500


class SubjectState(NamedTuple):
    """A subject with its overriders, workloads and node pools at one moment."""

    binding: Binding
    overriders: tuple[JSONObject, ...]
    """Its overriders; the first one is in effect."""
    subject: JSONObject | None
    keys: Sequence[ObjectKey]
    """Its workloads: their owner references have its uid and API version, or it is gone."""
    pools: Sequence[str]
    """Its node pools; empty if it neither has nor had an overrider, because they are not needed then."""
    missing: tuple[str, ...]
    """Its node pools without a workload."""
    other_version: frozenset[str]
    """Its node pools with workloads whose owner references name another API version than the subject has."""
    orphans: tuple[Orphan, ...] = ()
    """Rendered workloads that the subject owned and that have no owner any more."""
    dangling: tuple[Orphan, ...] = ()
    """Rendered workloads whose owner was deleted. The garbage collector usually deletes them soon."""
    absent_pools: tuple[str, ...] = ()
    """Names of pools in its spec without a NodePool."""
    no_controller: str = ""
    """The reason why no controller creates its workloads, ``""`` if one seems to."""

    @property
    def effective(self) -> JSONObject | None:
        """The overrider in effect."""
        return self.overriders[0] if self.overriders else None

    @property
    def is_abandoned(self) -> bool:
        """Whether OpenYurt has no controller for this kind of subject, so nobody writes the workloads."""
        return self.no_controller == DAEMONS_WITHOUT_CONTROLLER

    @property
    def name(self) -> str:
        """The name of the subject for messages."""
        return f"{self.binding.group_kind.kind} {self.binding.namespace}/{self.binding.name}"


async def collect_state(binding: Binding, *, store: StoreView, workloads: Workloads) -> SubjectState:
    """Return the state of a subject.

    If there are many workloads, other requests get turns. A change during such a turn queues the subject again.

    Args:
        binding: The subject.
        store: Overriders, subjects and node pools.
        workloads: The workloads.
    """
    overriders, subject = overriders_of(store, binding), store.get(*binding)
    owned = await _sort_by_owner(workloads.of(binding), subject, workloads)
    keys = [key for key, _ in owned.current]
    if subject is None or not (overriders or any(hash_of(workload) for _, workload in owned.current)):
        orphans = workloads.orphans_of(binding)
        return SubjectState(binding, overriders, subject, keys, (), (), frozenset(), orphans, tuple(owned.dangling))
    kind, cluster = binding.group_kind, binding.cluster
    absent = absent_pools(subject, cluster=cluster, store=store)
    pools = pools_of_subject(kind, subject, cluster=cluster, store=store)
    if absent:  # `pools_of_subject` counts all listed pools as existing if the store has no NodePool.
        pools = sorted(set(pools).difference(absent))
    other = owned.other_version | workloads.of_other_version(binding)
    having = other.union(pool_of(workload) for _, workload in owned.current)
    missing = tuple(pool for pool in pools if pool not in having)
    orphans, dangling = workloads.orphans_of(binding), tuple(owned.dangling)
    has_no_workloads = bool(missing) and not (having or orphans or dangling)
    return SubjectState(
        binding, overriders, subject, keys, pools, missing, frozenset(other), orphans, dangling, absent,
        find_no_controller(binding, store, has_no_workloads=has_no_workloads),
    )  # fmt: skip


class _Owned(NamedTuple):
    """The workloads that name a subject as their owner."""

    current: list[tuple[ObjectKey, PartialObject]]
    """The workloads whose owner reference has the API version of the stored subject."""
    other_version: set[str]
    """The node pools of workloads whose owner reference has another API version."""
    dangling: list[Orphan]
    """Rendered workloads whose owner was deleted: the subject, or an earlier object of that name."""


async def _sort_by_owner(keys: Sequence[ObjectKey], subject: JSONObject | None, workloads: Workloads) -> _Owned:
    """Group workloads by the relation of their owner to ``subject``, None if it was deleted."""
    owned = _Owned([], set(), [])
    version = None if subject is None else subject["apiVersion"]
    for number, key in enumerate(keys, 1):
        if number % _SORTED_AT_ONCE == 0:
            await asyncio.sleep(0)
        workload = workloads.get(key)
        owner = None if workload is None else find_owner_in(workload.owners)
        if workload is None or owner is None:
            continue
        former = is_former(owner, subject)
        if former and hash_of(workload) and not workload.deleting:
            owned.dangling.append(Orphan(key, pool_of(workload)))
        if former and subject is not None:
            continue
        if version is not None and owner.api_version != version:
            owned.other_version.add(pool_of(workload))
        else:
            owned.current.append((key, workload))
    return owned
