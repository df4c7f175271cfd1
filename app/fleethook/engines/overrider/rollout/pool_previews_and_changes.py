"""Previews of the workload of each pool, with the entry behind each difference, and the changes between previews."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.render.template_delta import delta_of, leaves, value_at
from fleethook.engines.overrider.render.undo_and_annotations import (
    RENDER_ANNOTATIONS,
    read_last_render,
    set_last_render,
)
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import render_with
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import Subject, pools_of_subject
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS
from fleethook.patch import identical
from fleethook.workload_schema.defaults import set_defaults


class FieldChange(NamedTuple):
    """One difference that an overrider makes.

    ``before`` is None for an added member, ``after`` for a removed one. ``source`` is the path of the step that set the
    member last, such as ``entries[0].items[1]``.
    If elements of a list change their order, the list is a change, too, beside the changes inside its elements.
    """

    path: str
    before: JSON
    after: JSON
    source: str


class Preview(NamedTuple):
    """The rendered workload of one pool."""

    subject: str
    overrider: str
    pool: str
    kind: str
    workload: JSONObject
    changes: tuple[FieldChange, ...]
    warnings: tuple[str, ...]


class PoolWorkload(NamedTuple):
    """One combination of subject, pool and workload kind."""

    subject: Subject
    overrider: JSONObject | None
    pool: str
    kind: str

    def plan(self, store: StoreView, plans: PlanCache) -> PoolPlan:
        """Return the plan of the cell; raises SubjectError, RenderError."""
        group_kind, document, cluster = self.subject
        return plans.plan(
            group_kind, document, self.overrider, kind=self.kind, pool=self.pool, cluster=cluster, store=store
        )


def cells(store: StoreView, clusters: list[str]) -> Iterator[PoolWorkload]:
    """Yield every pool of every subject in the store."""
    for cluster in clusters:
        for group_kind in SUBJECT_KINDS:
            for document in store.each(cluster, group_kind):
                yield from _list_cells(store, Subject(group_kind, document, cluster))


def _read_name(document: JSONObject) -> tuple[str, str]:
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]


def _list_cells(store: StoreView, subject: Subject) -> Iterator[PoolWorkload]:
    namespace, name = _read_name(subject.document)
    bound = overriders_of(store, Binding(subject.cluster, subject.group_kind, namespace, name))
    for pool in pools_of_subject(subject.group_kind, subject.document, cluster=subject.cluster, store=store):
        for kind in workload_kinds(subject.document):
            yield PoolWorkload(subject, bound[0] if bound else None, pool, kind)


def preview(cell: PoolWorkload, store: StoreView, plans: PlanCache) -> Preview:
    """Return the workload of one cell, rendered as if it was created now.

    Raises:
        SubjectError: The subject describes no workload.
        RenderError: The overrider does not fit.
    """
    plan = cell.plan(store, plans).full
    # Rendering keeps the defaults of a stored workload. A new one gets them later, so a removed field is absent here.
    last_render = read_last_render(render_with(plan, plan.create.bare, last_render=None, creating=True))
    return Preview(
        subject=_format_name(*cell.subject[:2]),
        overrider="" if cell.overrider is None else cell.overrider["metadata"]["name"],
        pool=cell.pool,
        kind=cell.kind,
        workload=plan.new_workload if last_render is None else set_last_render(plan.new_workload, last_render),
        changes=tuple(_list_changes(plan)),
        warnings=plan.warnings,
    )


def count_changes(cell: PoolWorkload, store: StoreView, plans: PlanCache) -> int:
    """Return the number of the changes that `preview` lists, without rendering the workload.

    Errors as for `preview`.
    """
    plan = cell.plan(store, plans)
    changes = plan.values.fill([list(leaf.values) for leaf in plan.shared.plan.list_changes()])
    return sum(not identical(before, after) for before, after in changes)


def _format_name(group_kind: GroupKind, document: JSONObject) -> str:
    namespace, name = _read_name(document)
    return f"{group_kind.kind} {namespace or 'default'}/{name}"


def _list_changes(plan: Plan) -> Iterator[FieldChange]:
    for leaf in plan.list_changes():
        before, after = leaf.values
        if identical(before, after):
            continue  # Only other pools that share the plan, with other names and replicas, have this difference.
        if leaf.reorders:
            before, after = (value_at(one, leaf.tokens) for one in (plan.create.bare, plan.create.rendered))
        yield FieldChange(leaf.pointer, before, after, plan.source_of(leaf.tokens))


# The hash changes with each edit of an overrider, and the undo text with the fields that it sets.
_BOOKKEEPING: Final = frozenset(RENDER_ANNOTATIONS)


class CellKey(NamedTuple):
    """Identifies a workload before and after a change: its subject, its node pool and its kind."""

    subject: ObjectKey
    pool: str
    kind: str


class PoolChange(NamedTuple):
    """The workload of a node pool before and after a change.

    Attributes:
        before: None if the workload is new.
        after: None if the workload is gone.
        changes: The differences, empty for a workload that is new or gone.
    """

    before: Preview | None
    after: Preview | None
    changes: tuple[FieldChange, ...]

    @property
    def preview(self) -> Preview:
        """The workload after the change, or before if it is gone."""
        found = self.after or self.before
        assert found is not None
        return found


def cell_key(cell: PoolWorkload) -> CellKey:
    """Return the key of a cell."""
    return CellKey(key_of(cell.subject.document), cell.pool, cell.kind)


def find_unaffected(
    before: Mapping[CellKey, PoolWorkload], after: Mapping[CellKey, PoolWorkload], changed: Collection[ObjectKey]
) -> frozenset[CellKey]:
    """Return the workloads that cannot differ, because their subject and overrider are the same objects.

    Args:
        before: The workloads before the change.
        after: The workloads after the change.
        changed: Keys of changed objects. If a NodePool is among them, each workload may differ.
    """
    if any(key.group_kind == NODE_POOL for key in changed):
        return frozenset()
    return frozenset(key for key, cell in after.items() if key in before and _has_same_inputs(before[key], cell))


def _has_same_inputs(before: PoolWorkload, after: PoolWorkload) -> bool:
    return before.subject.document is after.subject.document and before.overrider is after.overrider


def compare_previews(
    before: Mapping[CellKey, Preview], after: Mapping[CellKey, Preview], *, failed: Iterable[CellKey]
) -> list[PoolChange]:
    """Return the workloads that differ: changed and new ones in the order of ``after``, then those that are gone.

    The annotations with which fleethook remembers its changes do not count.

    Args:
        before: The workloads before the change.
        after: The workloads after the change.
        failed: Workloads that cannot be rendered after the change. They are not gone.
    """
    changes = [_compare(before.get(key), now) for key, now in after.items()]
    remaining = after.keys() | set(failed)
    changes += [PoolChange(former, None, ()) for key, former in before.items() if key not in remaining]
    return [change for change in changes if change.changes or change.before is None or change.after is None]


def _compare(before: Preview | None, after: Preview) -> PoolChange:
    if before is None:
        return PoolChange(None, after, ())
    old, new = without_bookkeeping(before.workload), without_bookkeeping(after.workload)
    if identical(old, new):
        return PoolChange(before, after, ())
    # A subject of a cluster may have the defaults of OpenYurt's webhooks, and its manifest lacks them.
    changes = _list_field_changes(set_defaults(old), set_defaults(new), before=before, after=after)
    return PoolChange(before, after, tuple(changes))


def _list_field_changes(old: JSONObject, new: JSONObject, *, before: Preview, after: Preview) -> Iterator[FieldChange]:
    for leaf in leaves(delta_of(old, new, WORKLOAD)):
        was, now = (value_at(one, leaf.tokens) for one in (old, new)) if leaf.reorders else leaf.values
        set_by = after.changes if now is not None else before.changes
        yield FieldChange(leaf.pointer, was, now, _find_source(leaf.pointer, set_by))


def _find_source(path: str, changes: Sequence[FieldChange]) -> str:
    """Return the part of the overrider that sets a field, or a field around or in it; ``""`` for the template."""
    inner = (change.source for change in changes if _contains(change.path, path) or _contains(path, change.path))
    return next(inner, "")


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}/")


def without_bookkeeping(workload: JSONObject) -> JSONObject:
    """Return a workload without the annotations with which fleethook remembers its changes."""
    annotations = workload["metadata"].get("annotations")
    if not annotations or _BOOKKEEPING.isdisjoint(annotations):
        return workload
    kept = {name: text for name, text in annotations.items() if name not in _BOOKKEEPING}
    metadata = {name: value for name, value in workload["metadata"].items() if name != "annotations"}
    return {**workload, "metadata": {**metadata, "annotations": kept} if kept else metadata}
