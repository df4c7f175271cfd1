"""Lists the subjects, their node pools and their workloads, and computes the state of one of these cells.

The lists are cheap: nothing is rendered. The pages render the shown part only.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from fleethook.cluster.store import ObjectKey, PartialObject, StoreView, intern_text
from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.controller.workload_decision import detect_drift
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.effect import compare
from fleethook.engines.overrider.rollout.prediction import count
from fleethook.engines.overrider.rollout.preview import CellKey, PoolWorkload, count_changes
from fleethook.engines.overrider.subject.owner_index import WORKLOAD_INDEXES, overriders_of, pool_of
from fleethook.engines.overrider.subject.subject_members import pools_of_subject, workload_kinds
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.patch import apply


class FleetView(StoreView, Protocol):
    """The store, with the keys of a kind over all clusters."""

    def keys(self, group_kind: GroupKind) -> Iterator[ObjectKey]:
        """Yield the keys of the objects of one kind, over all clusters."""


class SubjectRow(NamedTuple):
    """A subject with its node pools.

    Attributes:
        key: The subject.
        pools: The names of its node pools, sorted.
        kinds: The kinds of its workloads.
        overrider: The name of the overrider in effect, ``""`` without one.
    """

    key: ObjectKey
    pools: Sequence[str]
    kinds: Sequence[str]
    overrider: str

    @property
    def title(self) -> str:
        """The kind, namespace, name and logical cluster."""
        inside = f" of {self.key.cluster}" if self.key.cluster else ""
        return f"{self.key.group_kind.kind} {self.key.namespace or 'default'}/{self.key.name}{inside}"

    @property
    def overrider_key(self) -> ObjectKey | None:
        """The overrider in effect, None without one."""
        key = ObjectKey(self.key.cluster, YURT_APP_OVERRIDER, self.key.namespace, self.overrider)
        return key if self.overrider else None

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.pools) * len(self.kinds)


def list_subject_keys(store: FleetView) -> list[ObjectKey]:
    """Return the keys of all subjects, sorted by namespace, name, kind and cluster."""
    found = [key for group_kind in SUBJECT_KINDS for key in store.keys(group_kind)]
    return sorted(found, key=lambda key: (key.namespace, key.name, key.group_kind, key.cluster))


def make_row(store: StoreView, key: ObjectKey) -> SubjectRow | None:
    """Return the row of a subject, None if the subject does not exist."""
    document = store.get(*key)
    if document is None:
        return None
    overrider = find_overrider(store, key)
    # Subjects share most names of node pools. Equal strings of one object are compared and hashed in less time.
    pools = sorted(map(intern_text, pools_of_subject(key.group_kind, document, cluster=key.cluster, store=store)))
    name = "" if overrider is None else overrider["metadata"]["name"]
    return SubjectRow(key, pools, workload_kinds(document), name)


def find_overrider(store: StoreView, subject: ObjectKey) -> JSONObject | None:
    """Return the overrider in effect for a subject, None without one."""
    cluster, group_kind, namespace, name = subject
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=group_kind, name=name)
    return bound[0] if bound else None


def find_cell(store: StoreView, key: CellKey) -> PoolWorkload | None:
    """Return a cell for a preview, None if its subject does not exist."""
    document = store.get(*key.subject)
    if document is None:
        return None
    subject = Subject(key.subject.group_kind, document, key.subject.cluster)
    return PoolWorkload(subject, find_overrider(store, key.subject), key.pool, key.kind)


def list_running(
    store: StoreView, subject: ObjectKey, kind: str, pools: Container[str] | None = None
) -> Mapping[str, Sequence[PartialObject]]:
    """Return the stored workloads of a subject by node pool, without those that are being deleted.

    Args:
        store: The workloads.
        subject: The subject.
        kind: Deployment or StatefulSet.
        pools: The node pools to return, None for all.
    """
    found: dict[str, list[PartialObject]] = {}
    for workload in store.find(WORKLOAD_INDEXES[kind], subject.cluster, subject):
        pool = pool_of(workload)
        if (pools is None or pool in pools) and not workload.deleting:
            found.setdefault(pool, []).append(workload)
    return found


def workload_key(workload: PartialObject, subject: ObjectKey, kind: str) -> ObjectKey:
    """Return the key of a workload of a subject."""
    return ObjectKey(subject.cluster, GroupKind("apps", kind), workload.namespace, workload.name)


State = Literal["error", "rolls", "overridden", "unchanged"]
"""``error``: cannot be rendered. ``rolls``: a running workload differs from its plan, so that its pods would be
replaced. ``overridden``: the overrider changes the template. ``unchanged``: it does not."""

LABELS: Final[dict[State, str]] = {
    "error": "error",
    "rolls": "would roll",
    "overridden": "overridden",
    "unchanged": "unchanged",
}


class CellState(NamedTuple):
    """The state of a cell.

    Attributes:
        state: The most urgent state that applies.
        changes: The number of fields that the overrider changes.
        text: The error, or the effect that is due; ``""`` without one.
    """

    state: State
    changes: int = 0
    text: str = ""

    @property
    def label(self) -> str:
        """The state as a reader sees it."""
        return LABELS[self.state]


def find_state(cell: PoolWorkload, running: Sequence[JSONObject], *, store: StoreView, plans: PlanCache) -> CellState:
    """Return the state of a cell.

    Args:
        cell: The subject, overrider, node pool and kind.
        running: The complete stored workloads of the cell; usually one, or none.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    try:
        changes = count_changes(cell, store, plans)
    except (SubjectError, RenderError) as error:
        return CellState("error", text=str(error))
    texts = []
    for workload in running:
        drift = detect_drift(workload, kind=cell.kind, store=store, plans=plans)
        if drift.error:
            return CellState("error", changes, drift.error)
        effect = compare(cell.kind, workload, apply(workload, drift.operations))
        if effect.name == "rolls":
            return CellState("rolls", changes, "; ".join((f"replaces {count(effect.pods, 'pod')}", *effect.notes)))
        if effect.name == "scales":
            texts.append(f"scales from {effect.replicas[0]} to {effect.replicas[1]} replicas")
        elif effect.name != "unchanged":
            texts.append(f"the next write changes its {effect.name}")
    return CellState("overridden" if changes else "unchanged", changes, "; ".join(texts))
