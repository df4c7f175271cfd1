"""Finds workloads and node pools that an overrider should affect and does not: missing, orphaned, of another version.

Orphans are workloads of node pools that no controller of OpenYurt manages any more. An upgrade from OpenYurt 1.4
releases every workload of a YurtAppSet. The controllers of 1.5 and later find workloads by a label that 1.4 does not
set. They remove the owner reference from all other workloads and create replacements. A released workload keeps running
with its overrides, beside its replacement. So does a workload whose owner is gone, or whose owner no longer has its
node pool, until a user deletes the workload.

The controller reports orphans that were rendered; its message has the command that lists all.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.status_conditions import Status
from fleethook.cluster.store import Index, ObjectKey, PartialObject
from fleethook.engines.overrider.subject.owner_and_overrider import Binding, Owner, hash_of, pool_of
from fleethook.engines.overrider.subject.subject_members import (
    NodePoolView,
    depends_on_node_pools,
    is_v1beta1,
    listed_pools,
)
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import GroupKind, parse_api_version
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL, POOL_NAME_LABEL, REF_APP_SET_LABEL, SUBJECT_KINDS, YURT_APP_SET


def absent_pools(subject: JSONObject, *, cluster: str, store: NodePoolView) -> tuple[str, ...]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1 for which there is no NodePool.

    OpenYurt's controller ignores these names and does not report them in the status, as long as another pool exists
    (v1.7.0, pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go: getSelectedNodepools).
    """
    if not is_v1beta1(subject):
        return ()
    names = dict.fromkeys(listed_pools(subject))
    return tuple(name for name in names if store.get(cluster, NODE_POOL, "", name) is None)


def describe_lack_of_pools(group_kind: GroupKind, subject: JSONObject, absent: tuple[str, ...]) -> str:
    """Return the reason why a subject has no node pools, as a message.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: A subject without node pools.
        absent: The result of `absent_pools` for this subject.
    """
    spec, name = as_object(subject.get("spec")), f"{group_kind.kind} {subject['metadata']['name']}"
    if not depends_on_node_pools(group_kind, subject):
        return f"{name} has no node pool: spec.topology.pools is empty"
    reasons = [f"there is no NodePool {list_names(absent)}, which spec.pools names"] if absent else []
    if isinstance(spec.get("nodepoolSelector"), dict):
        reasons.append("no NodePool has the labels that spec.nodepoolSelector selects")
    listed = "spec.pools and spec.nodepoolSelector are" if group_kind == YURT_APP_SET else "spec.nodepoolSelector is"
    return f"{name} has no node pool: {', and '.join(reasons) or f'{listed} empty'}"


_MAX_ORPHANS: Final = 5


class Gaps(NamedTuple):
    """The node pools and workloads of a subject that its overrider does not reach."""

    missing: tuple[str, ...] = ()
    """Node pools that the entries select and that have no workload yet."""
    overdue: bool = False
    """Whether the subject's controller has had enough time to create them."""
    other_version: tuple[str, ...] = ()
    """Node pools whose workloads have owner references of another API version than `read_version`."""
    subject: str = "the subject"
    """The kind and name of the subject."""
    read_version: str = ""
    """The API version in which the server reads the subject."""
    no_pools: str = ""
    """The reason why the subject has no node pool, ``""`` if it has one."""
    absent_pools: tuple[str, ...] = ()
    """Names in the subject's spec for which there is no NodePool."""
    no_controller: str = ""
    """The reason why no controller creates workloads of this kind of subject, ``""`` if one seems to."""
    orphans: tuple[str, ...] = ()
    """Rendered workloads without an owner, each with its kind and node pool."""

    def count_lacking(self, pools: Collection[str]) -> int:
        """Return the number of node pools that lack a rendered workload, not counting ``pools``."""
        return len({*self.missing, *self.other_version}.difference(pools))

    def verdicts(self) -> list[tuple[bool, Status, str]]:
        """Return whether each gap exists, with its status and reason for a condition, the worst first."""
        late = bool(self.missing) and self.overdue
        return [
            (bool(self.other_version), "False", "OwnedByOtherVersion"),
            (bool(self.no_pools), "False", "NoNodePools"),
            (late and bool(self.no_controller), "False", "NoController"),
            (late, "False", "WorkloadsMissing"),
            (bool(self.orphans), "False", "OrphanedWorkloads"),
        ]

    def texts(self) -> Iterator[str]:
        """Yield a message for each gap."""
        if self.no_pools:
            yield self.no_pools
        elif self.absent_pools:
            yield f"there is no NodePool {list_names(self.absent_pools)}, which {self.subject} names in spec.pools"
        if self.missing:
            yield f"no workload in node pool {list_names(self.missing)}{self._describe_cause()}"
        elif self.no_controller:
            yield self.no_controller
        if self.other_version:
            yield (
                f"the workloads in node pool {list_names(self.other_version)} have owner references of another API "
                f"version than {self.read_version}, in which {self.subject} is read, so they are not rendered: install "
                "yurt-manager and its CustomResourceDefinitions in the same version of OpenYurt"
            )
        if self.orphans:
            yield describe_orphans(self.orphans)

    def _describe_cause(self) -> str:
        if not self.overdue:
            return ""
        if self.no_controller:
            return f": {self.no_controller}"
        return (
            f": the controller of {self.subject} has not created it in time; see its status and the log of yurt-manager"
        )


NO_GAPS: Final = Gaps()


ORPHANS_COMMAND: Final = (
    f"kubectl get deployments,statefulsets -A -l {POOL_NAME_LABEL} "
    "-o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,OWNER:.metadata.ownerReferences[0].name"
)
"""Also lists orphans that were never rendered."""


def describe_orphans(orphans: Sequence[str]) -> str:
    """Return a message that names the workloads without an owner, and the remedy."""
    named = list_names(orphans, most=_MAX_ORPHANS)
    if len(orphans) == 1:
        text = "a rendered workload has no owner any more and keeps its overrides"
        return f"{text}: {named}; delete it when its replacement runs"
    text = f"{len(orphans)} rendered workloads have no owner any more and keep their overrides"
    remedy = f"delete them when their replacements run ('{ORPHANS_COMMAND}' lists all workloads; orphans have no owner)"
    return f"{text}: {named}; {remedy}"


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
