"""Decides whether an entry selects a node pool: by name, ``*`` or labels, except exclusions such as ``-beijing``."""

from typing import Final

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.selectors import Selects, compile_selector

EVERY_POOL: Final = "*"
EXCLUDE: Final = "-"


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
        names = [item for item in pools if isinstance(item, str)] if isinstance(pools, list) else []
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
