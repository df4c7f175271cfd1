"""Finds workloads and node pools that an overrider should affect and does not: missing, orphaned, of another version.

Orphans are workloads of node pools that no controller of OpenYurt manages any more. An upgrade from OpenYurt 1.4
releases every workload of a YurtAppSet. The controllers of 1.5 and later find workloads by a label that 1.4 does not
set. They remove the owner reference from all other workloads and create replacements. A released workload keeps running
with its overrides, beside its replacement. So does a workload whose owner is gone, or whose owner no longer has its
node pool, until a user deletes the workload.

The controller reports orphans that were rendered; its message has the command that lists all.
"""

from typing import Final, NamedTuple

from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import Index, ObjectKey
from fleethook.engines.overrider.subject.owner_and_overrider import Binding, Owner, hash_of, pool_of
from fleethook.engines.overrider.subject.subject_and_pools import NodePoolView, is_v1beta1, listed_pools
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import NODE_POOL, REF_APP_SET_LABEL, SUBJECT_KINDS, YURT_APP_SET


def absent_pools(subject: JSONObject, *, cluster: str, store: NodePoolView) -> tuple[str, ...]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1 for which there is no NodePool.

    OpenYurt's controller ignores these names and does not report them in the status, as long as another pool exists
    (v1.7.0, pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go: getSelectedNodepools).
    """
    if not is_v1beta1(subject):
        return ()
    names = dict.fromkeys(listed_pools(subject))
    return tuple(name for name in names if store.get(cluster, NODE_POOL, "", name) is None)


class Orphan(NamedTuple):
    """A rendered workload without an owner that manages it."""

    key: ObjectKey
    pool: str

    def __str__(self) -> str:
        return f"{self.key.group_kind.kind} {self.key.name} in {self.pool}"


def is_orphan(workload: PartialObject) -> bool:
    """Return whether a workload was rendered and has lost its owner. One that is being deleted does not count."""
    of_pool = bool(hash_of(workload)) and bool(pool_of(workload)) and not workload.deleting
    return of_pool and not any(_is_owner(reference) for reference in workload.owners)


def is_former(owner: Owner, subject: JSONObject | None) -> bool:
    """Return whether the owner of a workload is gone: there is no subject of its name, or one with another uid."""
    if subject is None:
        return True
    uid = subject["metadata"].get("uid")
    return bool(uid and owner.uid and uid != owner.uid)


def _is_owner(reference: JSONObject) -> bool:
    if reference.get("controller") is True:
        return True
    group, _ = parse_api_version(str(reference.get("apiVersion") or ""))
    return GroupKind(group, str(reference.get("kind"))) in SUBJECT_KINDS


def _former_owner(workload: PartialObject) -> str:
    """Return the name of the subject that generated a workload's name, ``""`` if the apiserver truncated a long name.

    OpenYurt generates names from ``SUBJECT-POOL-`` (v1.7.0, getWorkloadPrefix in
    pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go; 1.4 does the same).
    """
    if label := workload.labels.get(REF_APP_SET_LABEL):
        return label
    name, _, rest = workload.name.rpartition(f"-{pool_of(workload)}-")
    return name if "-" not in rest else ""


def former_bindings(cluster: str, workload: PartialObject) -> list[Binding]:
    """Return the subjects that may have owned an orphan, none if its name was truncated."""
    subject = _former_owner(workload) if is_orphan(workload) else ""
    if not subject:
        return []
    kinds = [YURT_APP_SET] if workload.labels.get(REF_APP_SET_LABEL) else sorted(SUBJECT_KINDS)
    return [Binding(cluster, kind, workload.namespace, subject) for kind in kinds]


ORPHAN_INDEXES: Final = {
    kind: Index(f"{kind}_orphans", GroupKind("apps", kind), former_bindings) for kind in ("Deployment", "StatefulSet")
}
"""The orphans, by the subjects that may have owned them."""
