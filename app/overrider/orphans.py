"""Workloads of node pools that no controller of OpenYurt looks after any more: the one definition of an orphan.

An upgrade from OpenYurt 1.4 releases every workload of a YurtAppSet: the controllers of 1.5 and later find their
workloads by a label that those of 1.4 lack, take the owner reference of all others away and create new ones. A released
workload keeps running with its overrides, beside its replacement. So does a workload whose owner is gone or lost its
node pool, until somebody deletes it. The controller looks for orphans that were rendered, `fleethook convert` for all.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from app.model.gvk import GroupKind, parse_api_version
from app.model.json import JSONObject
from app.model.openyurt import REF_APP_SET_LABEL, SUBJECT_KINDS, YURT_APP_SET
from app.overrider.binding import Binding
from app.overrider.bound_workloads import hash_of, pool_of
from app.overrider.owner import Owner, find_owner_in
from app.overrider.pools import pools_of_subject
from app.store import Index, ObjectKey, StoreView, key_of
from app.store.partial import PartialBuilder, PartialObject

# k8s.io/apiserver/pkg/storage/names/generate.go: a name has 63 characters, the last five of which are random.
_MAX_BASE: Final = 58
_RANDOM: Final = 5


RELEASED: Final = "it has no owner"


class Orphan(NamedTuple):
    """A workload without an owner that keeps it."""

    key: ObjectKey
    pool: str
    reason: str = RELEASED
    rendered: bool = True
    """Whether it has what an overrider set."""

    def __str__(self) -> str:
        return f"{self.key.group_kind.kind} {self.key.name} in {self.pool}"


class OrphanKey(NamedTuple):
    """Under which an orphan is found."""

    cluster: str
    namespace: str
    subject: str
    """Its former owner's name, ``""`` where its own name does not tell."""
    base: str = ""
    """In place of that: its own name without the random part."""


def is_orphan(workload: PartialObject) -> bool:
    """Return whether a workload was rendered and `is_released`."""
    return bool(hash_of(workload)) and is_released(workload)


def is_released(workload: PartialObject) -> bool:
    """Return whether a workload of a node pool has no owner any more; one that is being deleted needs none."""
    of_pool = bool(pool_of(workload)) and not workload.deleting
    return of_pool and not any(_is_owner(reference) for reference in workload.owners)


def is_former(owner: Owner, subject: JSONObject | None) -> bool:
    """Return whether the owner that a workload names is gone: there is no subject, or another one of its name."""
    if subject is None:
        return True
    uid = subject["metadata"].get("uid")
    return bool(uid and owner.uid and uid != owner.uid)


def find_orphans(workloads: Iterable[JSONObject], store: StoreView) -> Iterator[Orphan]:
    """Yield the workloads of node pools without an owner, or whose owner is gone or no longer has that node pool.

    Args:
        workloads: Deployments and StatefulSets.
        store: All subjects and NodePools of the same clusters.
    """
    pools: dict[ObjectKey, frozenset[str]] = {}
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
    """Return the name of the subject that a workload was generated for; ``""`` where a long name was cut.

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
    """Yield the keys under which orphans of a subject are found.

    Args:
        binding: The subject.
        pools: Its node pools: names that are too long for a workload's name can only be compared.
    """
    yield OrphanKey(binding.cluster, binding.namespace, binding.name)
    for pool in pools:
        base = f"{binding.name}-{pool}-"
        if len(base) > _MAX_BASE:
            yield OrphanKey(binding.cluster, binding.namespace, "", base[:_MAX_BASE])


def former_bindings(cluster: str, workload: PartialObject) -> list[Binding]:
    """Return the subjects that may have owned an orphan; none where its name does not tell."""
    subject = _former_owner(workload) if is_orphan(workload) else ""
    if not subject:
        return []
    kinds = [YURT_APP_SET] if workload.labels.get(REF_APP_SET_LABEL) else sorted(SUBJECT_KINDS)
    return [Binding(cluster, kind, workload.namespace, subject) for kind in kinds]
