"""The figures of the overview."""

from typing import NamedTuple

from app.model.gvk import GroupKind
from app.store import Store


class KindCount(NamedTuple):
    """The number of stored objects of a kind, over all clusters."""

    group_kind: GroupKind
    total: int


def count_objects(store: Store) -> list[KindCount]:
    """Return the numbers of objects, by kind and group."""
    counts = (KindCount(kind, total) for kind, total in store.counts().items() if total)
    return sorted(counts, key=lambda one: (one.group_kind.kind, one.group_kind.group))
