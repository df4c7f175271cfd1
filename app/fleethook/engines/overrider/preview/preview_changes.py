"""Compare the workloads of node pools before and after a change of overriders, subjects or node pools."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engines.overrider.preview.preview import Cell, Change, Preview
from fleethook.engines.overrider.render.delta import MISSING, delta_of, leaves
from fleethook.engines.overrider.render.undo import UNDO_ANNOTATION
from fleethook.model.json import JSONObject
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import NODE_POOL, RENDERED_ANNOTATION
from fleethook.patch import identical

# The hash changes with each edit of an overrider, and the undo text with the fields that it sets.
_BOOKKEEPING: Final = frozenset({RENDERED_ANNOTATION, UNDO_ANNOTATION})


class PoolKey(NamedTuple):
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
    changes: tuple[Change, ...]

    @property
    def preview(self) -> Preview:
        """The workload after the change, or before if it is gone."""
        found = self.after or self.before
        assert found is not None
        return found


def pool_key(cell: Cell) -> PoolKey:
    """Return the key of a cell."""
    return PoolKey(key_of(cell.subject.document), cell.pool, cell.kind)


def find_unaffected(
    before: Mapping[PoolKey, Cell], after: Mapping[PoolKey, Cell], changed: Collection[ObjectKey]
) -> frozenset[PoolKey]:
    """Return the workloads that cannot differ, because their subject and overrider are the same objects.

    Args:
        before: The workloads before the change.
        after: The workloads after the change.
        changed: Keys of changed objects. If a NodePool is among them, each workload may differ.
    """
    if any(key.group_kind == NODE_POOL for key in changed):
        return frozenset()
    return frozenset(key for key, cell in after.items() if key in before and _has_same_inputs(before[key], cell))


def _has_same_inputs(before: Cell, after: Cell) -> bool:
    return before.subject.document is after.subject.document and before.overrider is after.overrider


def compare_previews(
    before: Mapping[PoolKey, Preview], after: Mapping[PoolKey, Preview], *, failed: Iterable[PoolKey]
) -> list[PoolChange]:
    """Return the workloads that differ: changed and new ones in the order of ``after``, then those that are gone.

    The annotations with which fleethook remembers its changes do not count.

    Args:
        before: The workloads before the change.
        after: The workloads after the change.
        failed: Workloads that cannot be rendered after the change. They are not gone.
    """
    found = [_compare(before.get(key), now) for key, now in after.items()]
    remaining = after.keys() | set(failed)
    found += [PoolChange(former, None, ()) for key, former in before.items() if key not in remaining]
    return [one for one in found if one.changes or one.before is None or one.after is None]


def _compare(before: Preview | None, after: Preview) -> PoolChange:
    if before is None:
        return PoolChange(None, after, ())
    old, new = without_bookkeeping(before.workload), without_bookkeeping(after.workload)
    changes = () if identical(old, new) else tuple(_list_field_changes(old, new, before=before, after=after))
    return PoolChange(before, after, changes)


def _list_field_changes(old: JSONObject, new: JSONObject, *, before: Preview, after: Preview) -> Iterator[Change]:
    for leaf in leaves(delta_of(old, new, WORKLOAD)):
        was, now = (None if value is MISSING else value for value in (leaf.before, leaf.after))
        set_by = after.changes if now is not None else before.changes
        yield Change(leaf.pointer, was, now, _find_source(leaf.pointer, set_by))


def _find_source(path: str, changes: Sequence[Change]) -> str:
    """Return the part of the overrider that sets a field, or a field around or in it; ``""`` for the template."""
    inner = (one.source for one in changes if _contains(one.path, path) or _contains(path, one.path))
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
