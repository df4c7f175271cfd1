"""The figures of the overview."""

from typing import NamedTuple

from app.model.gvk import GroupKind
from app.store import Store


class KindCount(NamedTuple):
    """The number of stored objects of a kind, over all clusters."""

    group_kind: GroupKind
    count: int


def count_objects(store: Store) -> list[KindCount]:
    """Return the numbers of objects, by kind and group."""
    counts = (KindCount(kind, count) for kind, count in store.counts().items() if count)
    return sorted(counts, key=lambda one: (one.group_kind.kind, one.group_kind.group))
