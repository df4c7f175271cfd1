"""Decides whether an entry selects a node pool: by name, by ``*``, and by exclusions such as ``-beijing``."""

from typing import Final

from app.model.json import JSON

EVERY_POOL: Final = "*"
EXCLUDE: Final = "-"


class PoolSelector:
    """The compiled ``pools`` of an entry: a lookup takes the same time for any number of names.

    ``name`` selects that pool, ``*`` every pool, and ``-name`` excludes a pool at any position in the list. OpenYurt
    documents exclusions too, but its webhook ignores them (deploymentrender_webhook.go, v1.4.4).
    """

    __slots__ = ("_excluded", "every", "named")

    def __init__(self, pools: JSON) -> None:
        """Compile ``pools``, which may have any shape; a value that is not a list selects no pool."""
        names = [item for item in pools if isinstance(item, str)] if isinstance(pools, list) else []
        self.every: Final = EVERY_POOL in names
        """Whether ``*`` selects all pools that are not excluded."""
        self.named: Final = frozenset(names)
        """The elements of the list, with exclusions."""
        self._excluded: Final = frozenset(item[len(EXCLUDE) :] for item in names if item.startswith(EXCLUDE))

    def selects(self, pool: str) -> bool:
        """Return whether the entry applies to ``pool``."""
        return pool not in self._excluded and (self.every or pool in self.named)
