"""The list of the objects of some kinds, over all clusters."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from app.model.gvk import GroupKind
from app.store import ObjectKey, Store

PAGE_SIZE: Final = 100


class ObjectList(NamedTuple):
    """One page of a list.

    Attributes:
        keys: The objects of this page, by kind, cluster, namespace and name.
        total: The number of objects that match.
        page: The number of this page, from 1.
        pages: The number of pages, at least 1.
    """

    keys: tuple[ObjectKey, ...]
    total: int
    page: int
    pages: int


def list_objects(store: Store, kinds: Iterable[GroupKind], *, text: str = "", page: int = 1) -> ObjectList:
    """Return a page of the objects of these kinds whose names contain a text, without regard to case."""
    wanted = text.casefold()
    found = [key for kind in kinds for key in store.keys(kind) if wanted in f"{key.namespace}/{key.name}".casefold()]
    found.sort(key=lambda key: (key.group_kind.kind, key.cluster, key.namespace, key.name))
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(page, 1), pages)
    return ObjectList(tuple(found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]), len(found), page, pages)
