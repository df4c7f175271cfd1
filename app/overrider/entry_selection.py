"""Finds the entries of an overrider that apply to a node pool, in a time that does not grow with their number."""

from collections.abc import Set as AbstractSet
from typing import Final

from app.model.json import JSON, as_object
from app.overrider.pool_exclusion import PoolSelector


class EntrySelection:
    """An index of the entries of an overrider by node pool."""

    __slots__ = ("_by_pool", "_every", "_selectors")

    def __init__(self, entries: JSON) -> None:
        """Index the ``entries`` of an overrider, which may have any shape."""
        listed = entries if isinstance(entries, list) else []
        self._selectors: Final = [PoolSelector(as_object(entry).get("pools")) for entry in listed]
        self._every: Final[list[int]] = []
        self._by_pool: Final[dict[str, list[int]]] = {}
        for number, selector in enumerate(self._selectors):
            if selector.every:
                self._every.append(number)
                continue
            for name in selector.named:
                self._by_pool.setdefault(name, []).append(number)

    def applying(self, pool: str) -> tuple[int, ...]:
        """Return the indexes of the entries that apply to ``pool``, in order."""
        named = self._by_pool.get(pool)
        candidates = self._every if not named else sorted([*self._every, *named])
        return tuple(number for number in candidates if self._selectors[number].selects(pool))

    def is_for_every(self, number: int) -> bool:
        """Return whether an entry selects all node pools except those that it excludes."""
        return self._selectors[number].every

    def any_applies(self, pool: str) -> bool:
        """Return whether any entry applies to ``pool``."""
        candidates = (*self._by_pool.get(pool, ()), *self._every)
        return any(self._selectors[number].selects(pool) for number in candidates)


def selects_any(pools: JSON, known: AbstractSet[str]) -> bool:
    """Return whether an entry with these ``pools`` applies to at least one of the known node pools."""
    selector = PoolSelector(pools)
    return any(map(selector.selects, known if selector.every else selector.named & known))
