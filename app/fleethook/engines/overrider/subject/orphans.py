"""Finds orphans: workloads of node pools that no controller of OpenYurt manages any more.

An upgrade from OpenYurt 1.4 releases every workload of a YurtAppSet. The controllers of 1.5 and later find workloads by
a label that 1.4 does not set. They remove the owner reference from all other workloads and create replacements. A
released workload keeps running with its overrides, beside its replacement. So does a workload whose owner is gone, or
whose owner no longer has its node pool, until a user deletes the workload.

The controller reports orphans that were rendered, `fleethook convert` reports all.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fleethook.cluster.store import Index, ObjectKey, StoreView, key_of
from fleethook.cluster.store.store import PartialBuilder, PartialObject
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.bound_workloads import hash_of, pool_of
from fleethook.engines.overrider.subject.owner import Owner, find_owner_in
from fleethook.engines.overrider.subject.pools import pools_of_subject
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import REF_APP_SET_LABEL, SUBJECT_KINDS, YURT_APP_SET

# k8s.io/apiserver/pkg/storage/names/generate.go: a generated name has at most 63 characters, five of them random.
_MAX_BASE: Final = 58
_RANDOM: Final = 5


RELEASED: Final = "it has no owner"


class Orphan(NamedTuple):
    """A workload without an owner that manages it."""

    key: ObjectKey
    pool: str
    reason: str = RELEASED
    rendered: bool = True
    """Whether the workload was rendered, and so keeps its overrides."""

    def __str__(self) -> str:
        return f"{self.key.group_kind.kind} {self.key.name} in {self.pool}"


class OrphanKey(NamedTuple):
    """The index key of an orphan."""

    cluster: str
    namespace: str
    subject: str
    """The name of the former owner, ``""`` if the name of the workload does not contain it."""
    base: str = ""
    """If ``subject`` is empty, the name of the workload without its random part."""


def is_orphan(workload: PartialObject) -> bool:
    """Return whether a workload was rendered and is released."""
    return bool(hash_of(workload)) and is_released(workload)


def is_released(workload: PartialObject) -> bool:
    """Return whether a workload of a node pool has lost its owner. A workload that is being deleted does not count."""
    of_pool = bool(pool_of(workload)) and not workload.deleting
    return of_pool and not any(_is_owner(reference) for reference in workload.owners)


def is_former(owner: Owner, subject: JSONObject | None) -> bool:
    """Return whether the owner of a workload is gone: there is no subject of its name, or one with another uid."""
    if subject is None:
        return True
    uid = subject["metadata"].get("uid")
    return bool(uid and owner.uid and uid != owner.uid)


def find_orphans(
    workloads: Iterable[JSONObject], store: StoreView, *, known: dict[ObjectKey, frozenset[str]] | None = None
) -> Iterator[Orphan]:
    """Yield the orphans: workloads of node pools without an owner, or whose owner is gone or lost the node pool.

    Args:
        workloads: Deployments and StatefulSets.
        store: All subjects and NodePools of the same clusters.
        known: The node pools of subjects, for several calls with the same store.
    """
    pools: dict[ObjectKey, frozenset[str]] = {} if known is None else known
    builder = PartialBuilder()
    for document in workloads:
        workload, key = builder.build(document), key_of(document)
        reason = _find_reason(workload, key.cluster, store, pools)
        if reason:
            yield Orphan(key, pool_of(workload), reason, bool(hash_of(workload)))


def _find_reason(
    workload: PartialObject, cluster: str, store: StoreView, pools: dict[ObjectKey, frozenset[str]]
) -> str:
    if is_released(workload):
        return RELEASED
    owner = find_owner_in(workload.owners)
    if owner is None or not pool_of(workload) or workload.deleting:
        return ""
    name = f"{owner.group_kind.kind} {owner.name}"
    of = ObjectKey(cluster, owner.group_kind, workload.namespace, owner.name)
    subject = store.get(*of)
    if subject is None or is_former(owner, subject):
        return f"its owner, {name}, is gone"
    if of not in pools:
        pools[of] = frozenset(pools_of_subject(owner.group_kind, subject, cluster=cluster, store=store))
    return "" if pool_of(workload) in pools[of] else f"its owner, {name}, has no node pool {pool_of(workload)}"


def _is_owner(reference: JSONObject) -> bool:
    if reference.get("controller") is True:
        return True
    group, _ = parse_api_version(str(reference.get("apiVersion") or ""))
    return GroupKind(group, str(reference.get("kind"))) in SUBJECT_KINDS


def _orphan_keys(cluster: str, workload: PartialObject) -> list[OrphanKey]:
    if not is_orphan(workload):
        return []
    subject = _former_owner(workload)
    base = "" if subject else workload.name[:-_RANDOM]
    return [OrphanKey(cluster, workload.namespace, subject, base)]


def _former_owner(workload: PartialObject) -> str:
    """Return the name of the subject that generated a workload's name, ``""`` if the apiserver truncated a long name.

    OpenYurt generates names from ``SUBJECT-POOL-`` (v1.7.0, getWorkloadPrefix in
    pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go; 1.4 does the same).
    """
    if label := workload.labels.get(REF_APP_SET_LABEL):
        return label
    name, _, rest = workload.name.rpartition(f"-{pool_of(workload)}-")
    return name if "-" not in rest else ""


ORPHAN_INDEXES: Final = {
    kind: Index(f"{kind}_orphans", GroupKind("apps", kind), _orphan_keys) for kind in ("Deployment", "StatefulSet")
}


def orphan_keys_of(binding: Binding, pools: Iterable[str]) -> Iterator[OrphanKey]:
    """Yield the index keys of a subject's orphans.

    Args:
        binding: The subject.
        pools: The names of its node pools, which are needed to find truncated names of workloads.
    """
    yield OrphanKey(binding.cluster, binding.namespace, binding.name)
    for pool in pools:
        base = f"{binding.name}-{pool}-"
        if len(base) > _MAX_BASE:
            yield OrphanKey(binding.cluster, binding.namespace, "", base[:_MAX_BASE])


def former_bindings(cluster: str, workload: PartialObject) -> list[Binding]:
    """Return the subjects that may have owned an orphan, none if its name was truncated."""
    subject = _former_owner(workload) if is_orphan(workload) else ""
    if not subject:
        return []
    kinds = [YURT_APP_SET] if workload.labels.get(REF_APP_SET_LABEL) else sorted(SUBJECT_KINDS)
    return [Binding(cluster, kind, workload.namespace, subject) for kind in kinds]
