"""A subject with its overriders, its workloads and its node pools, as they are at one moment."""

from collections.abc import Sequence
from typing import NamedTuple

from app.model.json import JSONObject
from app.overrider.assess import Binding, hash_of, owner_version, pool_of
from app.overrider.binding import overriders_of
from app.overrider.entry_selection import EntrySelection
from app.overrider.pools import pools_of_subject
from app.overrider.status import Gaps
from app.overrider.workloads import Workloads
from app.store import ObjectKey, StoreView

_MAX_NAMED = 5


class Situation(NamedTuple):
    """What there is of a subject."""

    binding: Binding
    overriders: tuple[JSONObject, ...]
    """The one in effect first."""
    subject: JSONObject | None
    keys: Sequence[ObjectKey]
    """Its workloads."""
    pools: Sequence[str]
    """Its node pools; none if it neither has nor had an overrider, as nobody needs to know them then."""
    missing: tuple[str, ...]
    """Its node pools without a workload."""
    other_version: frozenset[str]
    """Its node pools with workloads whose owner references name another API version than the subject has."""

    @property
    def effective(self) -> JSONObject | None:
        """The overrider in effect."""
        return self.overriders[0] if self.overriders else None

    @property
    def name(self) -> str:
        """The subject, for messages."""
        return f"{self.binding.group_kind.kind} {self.binding.namespace}/{self.binding.name}"

    @property
    def lack(self) -> str:
        """What its controller has not done yet, for messages."""
        if not self.missing:
            return "workloads lack its template"
        more = f" and {len(self.missing) - _MAX_NAMED} more" if len(self.missing) > _MAX_NAMED else ""
        return f"there is no workload in node pool {', '.join(self.missing[:_MAX_NAMED])}{more}"

    def gaps(self, overrider: JSONObject, *, overdue: bool) -> Gaps:
        """Return the pools that an overrider selects and that have no workload to render.

        Args:
            overrider: Whose entries count.
            overdue: Whether the subject's controller had time enough to create the workloads.
        """
        if not self.missing and not self.other_version:
            return Gaps(overdue=overdue)
        is_selected = EntrySelection(overrider.get("entries")).any_applies
        other = tuple(sorted(filter(is_selected, self.other_version)))
        return Gaps(tuple(filter(is_selected, self.missing)), overdue, other)


def find_overriders(store: StoreView, binding: Binding) -> tuple[JSONObject, ...]:
    """Return the overriders bound to a subject, the effective one first."""
    cluster, group_kind, namespace, name = binding
    return overriders_of(store, cluster=cluster, namespace=namespace, group_kind=group_kind, name=name)


def look_around(binding: Binding, *, store: StoreView, workloads: Workloads) -> Situation:
    """Return what there is of a subject.

    Args:
        binding: The subject.
        store: Overriders, subjects and node pools.
        workloads: The workloads.
    """
    overriders, keys = find_overriders(store, binding), workloads.of(binding)
    subject: JSONObject | None = store.get(*binding)
    version = None if subject is None else subject["apiVersion"]
    found = [(key, workload) for key in keys if (workload := workloads.get(key)) is not None]
    # The workloads of a subject share one tuple of owners (`app.store.narrow`), which is read once.
    versions = {id(one.owners): owner_version(one) for one in {id(one.owners): one for _, one in found}.values()}
    other = {pool_of(one) for _, one in found if version is not None and versions[id(one.owners)] != version}
    if other:
        found = [(key, one) for key, one in found if versions[id(one.owners)] == version]
        keys = [key for key, _ in found]
    known = [one for _, one in found]
    if subject is None or not (overriders or any(map(hash_of, known))):
        return Situation(binding, overriders, subject, keys, (), (), frozenset())
    pools = pools_of_subject(binding.group_kind, subject, cluster=binding.cluster, store=store)
    having = {*(other := other | workloads.of_other_version(binding)), *map(pool_of, known)}
    missing = tuple(pool for pool in pools if pool not in having)
    return Situation(binding, overriders, subject, keys, pools, missing, frozenset(other))
