"""The effect of an edited overrider: findings, the difference in each node pool, and the workloads that would roll.

The findings equal those of `fleethook lint --change`, the differences those of `fleethook render --change`, and the
effects those of `fleethook diff`.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import Index, ObjectKey, StoreView
from fleethook.cluster.store.store import Stored
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.pages.edit_text import Edited
from fleethook.engines.overrider.pages.fleet import CellKey, find_cell, list_running, make_row, workload_key
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.edit import EditEffects, predict_edit
from fleethook.engines.overrider.rollout.guard import read_edit
from fleethook.engines.overrider.rollout.manifest_findings import ManifestFinding, check_edited_overrider
from fleethook.engines.overrider.rollout.prediction import (
    Outcome,
    Totals,
    find_subjects,
    predict_in_slices,
    sum_outcomes,
)
from fleethook.engines.overrider.rollout.preview import PoolChange, PoolKey, Preview, compare_previews, preview
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.work.slices import Sliced


class EditedStore:
    """The objects of a store with one object edited."""

    def __init__(self, base: StoreView, key: ObjectKey, document: JSONObject) -> None:
        """Put ``document`` in place of the object under ``key``, or add it. No partial kind can be edited."""
        self._base: Final = base
        self._key: Final = key
        self._document: Final = document

    @property
    def _former(self) -> Stored | None:
        return self._base.get(*self._key)

    def get(self, cluster: str, group_kind: GroupKind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        if (cluster, group_kind, namespace, name) == self._key:
            return self._document
        return self._base.get(cluster, group_kind, namespace, name)

    def find(self, index: Index, cluster: str, key: Hashable) -> tuple[Stored, ...]:
        """Return the objects of a cluster under ``key``, in the order of their names."""
        found = self._base.find(index, cluster, key)
        if index.group_kind != self._key.group_kind or cluster != self._key.cluster:
            return found
        former = self._former
        kept = [one for one in found if one is not former]
        if key in index.keys(cluster, self._document):
            kept.append(self._document)
        return tuple(sorted(kept, key=_sort_key))

    def each(self, cluster: str, group_kind: GroupKind) -> Iterator[Stored]:
        """Yield the objects of one kind in one cluster."""
        if (cluster, group_kind) != self._key[:2]:
            yield from self._base.each(cluster, group_kind)
            return
        former = self._former
        yield from (one for one in self._base.each(cluster, group_kind) if one is not former)
        yield self._document

    def knows(self, cluster: str) -> bool:
        """Return whether there is any object of a cluster."""
        return cluster == self._key.cluster or self._base.knows(cluster)

    def has(self, group_kind: GroupKind) -> bool:
        """Return whether there is any object of a kind, in any cluster."""
        return group_kind == self._key.group_kind or self._base.has(group_kind)


def _sort_key(document: JSONObject) -> tuple[str, str]:
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]


# Two renderings of a cell take about a millisecond, and predicting the effect on a workload two.
MAX_CELLS: Final = 100
MAX_WORKLOADS: Final = 300


class Failure(NamedTuple):
    """A cell that cannot be rendered after the edit."""

    key: PoolKey
    error: str


class EditReport(NamedTuple):
    """The effect of an edit.

    Attributes:
        findings: The findings about the edited overrider, by line.
        changes: The differing workloads among the compared ones.
        failures: The compared workloads that cannot be rendered.
        compared: The number of compared cells.
        size: The number of cells of the affected subjects that match the filter.
        outcomes: The effects on stored workloads; None if there are more than `MAX_WORKLOADS`.
        stored: The number of stored workloads of the affected subjects.
        estimate: The effects over all node pools, if each workload is as its overrider rendered it. None if the edit
            concerns no known subject.
    """

    findings: Sequence[ManifestFinding]
    changes: Sequence[PoolChange]
    failures: Sequence[Failure]
    compared: int
    size: int
    outcomes: Sequence[Outcome] | None
    stored: int
    estimate: EditEffects | None

    @property
    def totals(self) -> Totals | None:
        """The sums of the effects on stored workloads."""
        return None if self.outcomes is None else sum_outcomes(self.outcomes)


def list_affected(edited: Edited, store: StoreView) -> list[ObjectKey]:
    """Return the subjects that an edit concerns: of the overrider before the edit and after it."""
    return find_subjects(store, _edit(edited, store), [edited.key])


def list_affected_workloads(edited: Edited, store: StoreView) -> list[ObjectKey]:
    """Return the keys of the stored workloads that an edit concerns."""
    return [
        workload_key(workload, subject, kind)
        for subject in list_affected(edited, store)
        for kind in ("Deployment", "StatefulSet")
        for workloads in list_running(store, subject, kind).values()
        for workload in workloads
    ]


def report_edit(
    edited: Edited, store: StoreView, running: Mapping[ObjectKey, JSONObject] | None, *, stored: int, pool: str = ""
) -> Sliced[EditReport]:
    """Return the effect of an edit.

    Args:
        edited: The edit.
        store: The objects before the edit.
        running: The complete workloads of `list_affected_workloads`; None if there are too many to read.
        stored: The number of these workloads.
        pool: Compare only node pools whose name contains this text, in any case.
    """
    after = _edit(edited, store)
    findings = yield from check_edited_overrider(edited.document, after)
    subjects = find_subjects(store, after, [edited.key])
    comparison = yield from _compare(subjects, store, after, pool=pool)
    outcomes = None
    if running is not None:
        outcomes = yield from predict_in_slices(store, after, running.values(), [edited.key])
    estimate = None
    edit = read_edit(edited.former, edited.document.object, namespace=edited.key.namespace, store=after)
    if edit is not None:
        estimate = yield from predict_edit(edit)
    changes, failures, compared, size = comparison
    return EditReport(findings, changes, failures, compared, size, outcomes, stored, estimate)


def _edit(edited: Edited, store: StoreView) -> EditedStore:
    return EditedStore(store, edited.key, edited.document.object)


_Comparison = tuple[list[PoolChange], list[Failure], int, int]


def _compare(subjects: Sequence[ObjectKey], before: StoreView, after: StoreView, *, pool: str) -> Sliced[_Comparison]:
    keys = [key for subject in subjects for key in _list_keys(subject, after, pool)]
    shown = keys[:MAX_CELLS]
    yield
    former, _ = yield from _render(shown, before)
    rendered, failures = yield from _render(shown, after)
    changes = compare_previews(former, rendered, failed=[one.key for one in failures])
    return changes, failures, len(shown), len(keys)


def _list_keys(subject: ObjectKey, store: StoreView, pool: str) -> list[PoolKey]:
    row = make_row(store, subject)
    if row is None:
        return []
    text = pool.casefold()
    return [PoolKey(subject, name, kind) for name in row.pools if text in name.casefold() for kind in row.kinds]


def _render(keys: Sequence[PoolKey], store: StoreView) -> Sliced[tuple[dict[PoolKey, Preview], list[Failure]]]:
    plans = PlanCache()
    previews: dict[PoolKey, Preview] = {}
    failures: list[Failure] = []
    for key in keys:
        yield
        cell = find_cell(store, CellKey(*key))
        if cell is None:
            continue
        try:
            previews[key] = preview(cell, store, plans)
        except (SubjectError, RenderError) as error:
            failures.append(Failure(key, str(error)))
    return previews, failures
