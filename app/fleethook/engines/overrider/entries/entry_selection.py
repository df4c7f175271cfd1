"""Finds the entries of an overrider that apply to a node pool."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fleethook.model.formats.names_and_labels import Selects, compile_selector
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects, list_texts

EVERY_POOL: Final = "*"
EXCLUDE: Final = "-"
_PLAIN: Final = re.compile(r"[a-z0-9](-?[a-z0-9])*")


class PoolSelector:
    """The compiled ``pools`` and ``poolSelector`` of an entry: a lookup takes the same time for any number of names.

    ``name`` selects that pool, ``*`` every pool, and ``-name`` excludes a pool at any position in the list. OpenYurt
    documents exclusions too, but its webhook ignores them (deploymentrender_webhook.go, v1.4.4).

    ``poolSelector`` selects NodePools by their labels, besides the pools that the list selects. ``-name`` excludes
    these, too. A pool without a NodePool has no labels, and not even the empty selector selects it.
    """

    __slots__ = ("_excluded", "_labels", "every", "named")

    def __init__(self, entry: JSON) -> None:
        """Compile the members of ``entry``, which may have any shape; a member of a wrong type selects no pool."""
        members = as_object(entry)
        pools, selector = members.get("pools"), members.get("poolSelector")
        names = list_texts(pools)
        self.every: Final = EVERY_POOL in names
        """Whether ``*`` selects all pools that are not excluded."""
        self.named: Final = frozenset(names)
        """The elements of the list, with exclusions."""
        self._labels: Final[Selects | None] = compile_selector(selector) if isinstance(selector, dict) else None
        self._excluded: Final = frozenset(item[len(EXCLUDE) :] for item in names if item.startswith(EXCLUDE))

    @property
    def uses_labels(self) -> bool:
        """Whether the labels of NodePools decide."""
        return self._labels is not None

    def selects(self, pool: str, node_pool: JSONObject | None = None) -> bool:
        """Return whether the entry applies to ``pool``.

        Args:
            pool: Its name.
            node_pool: The NodePool, None if there is none or if no entry selects by labels.
        """
        if pool in self._excluded:
            return False
        if self.every or pool in self.named:
            return True
        if self._labels is None or node_pool is None:
            return False
        return self._labels(as_object(node_pool["metadata"].get("labels")))


class EntrySelection:
    """An index of the entries of an overrider by node pool. Entries that select by labels are few.

    Attributes:
        uses_labels: Whether any entry selects NodePools by their labels.
    """

    __slots__ = ("_by_pool", "_every", "_selectors", "uses_labels")

    def __init__(self, entries: JSON) -> None:
        """Index the ``entries`` of an overrider, which may have any shape."""
        listed = as_list(entries)
        self._selectors: Final = [PoolSelector(entry) for entry in listed]
        self.uses_labels: Final = any(selector.uses_labels for selector in self._selectors)
        self._every: Final[list[int]] = []
        self._by_pool: Final[dict[str, list[int]]] = {}
        for number, selector in enumerate(self._selectors):
            if selector.every or selector.uses_labels:
                self._every.append(number)
                continue
            for name in selector.named:
                self._by_pool.setdefault(name, []).append(number)

    def applying(self, pool: str, node_pool: JSONObject | None = None) -> tuple[int, ...]:
        """Return the indexes of the entries that apply to ``pool``, in order.

        Args:
            pool: Its name.
            node_pool: The NodePool, None if there is none. Only its labels matter, and only with `uses_labels`.
        """
        candidates = sorted([*self._every, *self._by_pool.get(pool, ())])
        return tuple(number for number in candidates if self._selectors[number].selects(pool, node_pool))

    def any_applies(self, pool: str, node_pool: JSONObject | None = None) -> bool:
        """Return whether any entry applies to ``pool``; arguments as in `applying`."""
        return bool(self.applying(pool, node_pool))


def uses_labels(overrider: JSONObject | None) -> bool:
    """Return whether an entry of an overrider selects NodePools by their labels."""
    entries = list_objects(as_object(overrider).get("entries"))
    return any(isinstance(entry.get("poolSelector"), dict) for entry in entries)


def selects_any(entry: JSON, known: Mapping[str, JSONObject | None]) -> bool:
    """Return whether an entry applies to at least one of the known node pools, which are given with their NodePools."""
    selector = PoolSelector(entry)
    names = known if selector.every or selector.uses_labels else selector.named & known.keys()
    return any(selector.selects(name, known[name]) for name in names)


def selected_names(pools: JSON) -> list[str]:
    """Return the node pools that a list selects by name."""
    return [name for name in list_texts(pools) if name and name != EVERY_POOL and name[0] != EXCLUDE]


def sample_names(names: Sequence[str]) -> list[str]:
    """Return sample names of node pools: a value that is valid with each sample for ``{{nodepool}}`` is valid with all.

    A field that accepts a name of letters, digits and dashes accepts shorter ones, too. A port accepts only digits.
    """
    longest: dict[object, str] = {}
    for name in names:
        plain = _PLAIN.fullmatch(name) is not None
        key: object = (name.isdecimal(),) if plain else name
        if len(name) > len(longest.get(key, "")):
            longest[key] = name
    return [*longest.values()]
