"""Reads the members of subjects of any API version: tweaks, topology and status, and selects their node pools."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from fleethook.cluster.store import Stored, StoreView
from fleethook.engines.overrider.entries.entry_selection import uses_labels
from fleethook.engines.overrider.subject.bound_overriders import subject_of
from fleethook.model.formats.names_and_labels import compile_selector
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects, list_texts
from fleethook.model.openyurt import API_VERSION, API_VERSION_V1BETA1, GROUP, NODE_POOL, YURT_APP_DAEMON, YURT_APP_SET


class Subject(NamedTuple):
    """The subject of an overrider, as stored."""

    group_kind: GroupKind
    document: JSONObject
    cluster: str


def find_subject(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Subject | None:
    """Return the subject that ``overrider`` names, None if it is not in the store."""
    kind, name = subject_of(overrider) or ("", "")
    group_kind = GroupKind(GROUP, kind)
    document = store.get(cluster, group_kind, namespace, name)
    return None if document is None else Subject(group_kind, document, cluster)


def is_v1beta1(subject: JSONObject) -> bool:
    """Return whether a subject is a YurtAppSet of v1beta1, which has tweaks and no topology."""
    return subject.get("apiVersion") == API_VERSION_V1BETA1


def depends_on_node_pools(
    group_kind: GroupKind, subject: JSONObject, overriders: Iterable[JSONObject | None] = ()
) -> bool:
    """Return whether the workloads of a subject, or their content, depend on NodePools.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject. Only its API version matters.
        overriders: Its overriders. If an entry has a ``poolSelector``, labels of NodePools decide.
    """
    return group_kind == YURT_APP_DAEMON or is_v1beta1(subject) or any(map(uses_labels, overriders))


def tweaks_of(subject: JSONObject) -> list[JSON]:
    """Return ``spec.workload.workloadTweaks`` of a YurtAppSet v1beta1."""
    return as_list(as_object(as_object(subject.get("spec")).get("workload")).get("workloadTweaks"))


class PoolSelection:
    """The node pools that ``pools`` and ``nodepoolSelector`` of a set, or of one of its tweaks, select.

    Source: workloadmanager/util.go, isNodePoolRelated (OpenYurt v1.7.0).
    """

    __slots__ = ("_names", "_selects")

    def __init__(self, members: JSON) -> None:
        """Compile the members, so that a lookup takes the same time for any number of pools."""
        selection = as_object(members)
        self._names: Final = frozenset(list_texts(selection.get("pools")))
        self._selects: Final = compile_selector(selection.get("nodepoolSelector"))

    def selects(self, pool: str, node_pool: JSONObject | None) -> bool:
        """Return whether a node pool is selected.

        Args:
            pool: Its name.
            node_pool: The NodePool, None if it is unknown; then only its name can select it.
        """
        if pool in self._names:
            return True
        return node_pool is not None and self._selects(as_object(node_pool["metadata"].get("labels")))


class SetSelections:
    """The node pools in which a YurtAppSet v1beta1 has workloads, and the tweaks of each."""

    __slots__ = ("_set", "_tweaks")

    def __init__(self, subject: JSONObject) -> None:
        """Compile the selections of a subject."""
        self._set: Final = PoolSelection(subject.get("spec"))
        self._tweaks: Final = [PoolSelection(tweak) for tweak in tweaks_of(subject)]

    def selects(self, pool: str, node_pool: JSONObject | None) -> bool:
        """Return whether the set has a workload in a node pool."""
        return self._set.selects(pool, node_pool)

    def tweaks(self, pool: str, node_pool: JSONObject | None) -> tuple[int, ...]:
        """Return the numbers of the tweaks of a node pool; a pool without a NodePool object has no labels."""
        known = node_pool or {"metadata": {"name": pool}}
        return tuple(number for number, tweak in enumerate(self._tweaks) if tweak.selects(pool, known))


class NodePoolView(Protocol):
    """The methods of a store that read NodePools."""

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""


class NodePools:
    """A copy of the list of NodePools of one cluster. It never changes, so a thread may read it."""

    def __init__(self, view: NodePoolView, cluster: str) -> None:
        """Copy the list of NodePools of a cluster."""
        self._cluster: Final = cluster
        self._by_name: Final = {one["metadata"]["name"]: one for one in view.each(cluster, NODE_POOL)}

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the NodePool of that name, None for anything else."""
        return self._by_name.get(name) if (cluster, group_kind, namespace) == (self._cluster, NODE_POOL, "") else None

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the NodePools of the cluster."""
        return iter(self._by_name.values() if (cluster, group_kind) == (self._cluster, NODE_POOL) else ())


_NODE_POOLS: Final = f"nodepools.{GROUP}"
# OpenYurt 1.7 added this version of NodePools and removed the controller of YurtAppDaemons (CHANGELOG.md, pull requests
# 2266 and 2309). It still installs the CustomResourceDefinition of YurtAppDaemons.
_VERSION_SINCE_1_7: Final = "v1beta2"

DAEMONS_WITHOUT_CONTROLLER: Final = (
    "OpenYurt 1.7 and later, which serve NodePools as v1beta2, have no controller for YurtAppDaemons: use a YurtAppSet "
    "v1beta1 with nodepoolSelector"
)


def has_no_daemon_controller(store: NodePoolView, cluster: str) -> bool:
    """Return whether a cluster's OpenYurt is too new to have a controller for YurtAppDaemons."""
    definition = store.get(cluster, DEFINITION, "", _NODE_POOLS)
    if definition is not None:
        versions = map(as_object, as_object(definition.get("spec")).get("versions") or ())
        return any(version.get("name") == _VERSION_SINCE_1_7 and version.get("served") for version in versions)
    # The server reads all NodePools in one version, the newest that the apiserver serves.
    node_pool = next(store.each(cluster, NODE_POOL), None)
    return node_pool is not None and node_pool["apiVersion"] == f"{GROUP}/{_VERSION_SINCE_1_7}"


def pools_of_subject(group_kind: GroupKind, subject: JSONObject, *, cluster: str, store: NodePoolView) -> list[str]:
    """Return the names of the node pools in which ``subject`` has workloads, in a stable order.

    A YurtAppSet v1alpha1 lists them in its topology. A YurtAppDaemon selects NodePools by label. A YurtAppSet v1beta1
    lists or selects NodePools. If the store has no NodePool, as with manifests without any, all pools that the set
    lists count as existing.
    """
    spec = as_object(subject.get("spec"))
    if is_v1beta1(subject):
        return _select_pools_of_set(subject, list(store.each(cluster, NODE_POOL)))
    if group_kind == YURT_APP_SET:
        return [name for name in topology(spec) if name]
    selects = compile_selector(spec.get("nodepoolSelector"))
    return sorted(
        node_pool["metadata"]["name"]
        for node_pool in store.each(cluster, NODE_POOL)
        if selects(as_object(node_pool["metadata"].get("labels")))
    )


def _select_pools_of_set(subject: JSONObject, node_pools: Sequence[JSONObject]) -> list[str]:
    if not node_pools:
        return sorted(listed_pools(subject))
    selections = SetSelections(subject)
    named = ((node_pool["metadata"]["name"], node_pool) for node_pool in node_pools)
    return sorted(name for name, node_pool in named if selections.selects(name, node_pool))


def listed_pools(subject: JSONObject) -> list[str]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1."""
    return [name for name in list_texts(as_object(subject.get("spec")).get("pools")) if name]


def absent_pools(subject: JSONObject, *, cluster: str, store: NodePoolView) -> tuple[str, ...]:
    """Return the names in ``spec.pools`` of a YurtAppSet v1beta1 for which there is no NodePool.

    OpenYurt's controller ignores these names and does not report them in the status, as long as another pool exists
    (v1.7.0, pkg/yurtmanager/controller/yurtappset/workloadmanager/util.go: getSelectedNodepools).
    """
    if not is_v1beta1(subject):
        return ()
    names = dict.fromkeys(listed_pools(subject))
    return tuple(name for name in names if store.get(cluster, NODE_POOL, "", name) is None)


def topology(spec: JSON) -> dict[str, JSONObject]:
    """Return a YurtAppSet's pools by name, without elements that are not objects with a name."""
    pools = list_objects(as_object(as_object(spec).get("topology")).get("pools"))
    return {pool["name"]: pool for pool in pools if isinstance(pool.get("name"), str)}


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


def subject_name(group_kind: GroupKind, subject: JSONObject) -> str:
    """Return the name of a subject for messages."""
    metadata = subject["metadata"]
    return f"{group_kind.kind} {metadata.get('namespace') or 'default'}/{metadata['name']}"


def is_behind(subject: JSONObject, *, lacks_pools: bool) -> bool:
    """Return whether the subject's controller reports that it has not written all workloads.

    OpenYurt 1.5 and later report a generation as observed when all workloads are written (v1.7.0, yurtappset:
    Reconcile). OpenYurt 1.4 does so too if a write was refused.

    Args:
        subject: The subject.
        lacks_pools: Whether a node pool has no workload.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    if isinstance(observed, int) and isinstance(generation, int) and observed < generation:
        return True
    return reports_refusal(subject, lacks_pools=lacks_pools)


def reports_refusal(subject: JSONObject, *, lacks_pools: bool) -> bool:
    """Return whether the controller of OpenYurt 1.4 reports a refused write, which it does not retry.

    Source: v1.4.4, pkg/yurtmanager/controller/yurtappset: managePools.

    Args:
        subject: The subject.
        lacks_pools: Whether a node pool has no workload. The condition of a refused creation may outlive the pool.
    """
    if subject.get("apiVersion") != API_VERSION:
        return False
    conditions = list_objects(as_object(subject.get("status")).get("conditions"))
    failed = {condition.get("type") for condition in conditions if condition.get("status") == "False"}
    return "PoolUpdated" in failed or (lacks_pools and "PoolProvisioned" in failed)
