"""Caches compiled conditions; each cluster has a fair share of the memory."""

from typing import Final

from fleethook.engines.dispatch.match.condition_compiler import Compiled

# The code of a node takes about 500 bytes, so this is 50 MiB: ten thousand conditions of ten nodes.
MAX_NODES: Final = 100_000
# An entry without a hit in this many look-ups per entry of its cluster belongs to a deleted webhook.
_STALE_AFTER: Final = 8


class _Share:
    """The programs of one cluster, the least recently used one first."""

    __slots__ = ("entries", "lookups", "nodes")

    def __init__(self) -> None:
        self.entries: dict[str, tuple[Compiled, int]] = {}
        self.lookups = 0
        self.nodes = 0

    def has_stale(self) -> bool:
        """Return whether the least recently used entry is stale."""
        _, read = next(iter(self.entries.values()))
        return self.lookups - read > _STALE_AFTER * len(self.entries)

    def drop_first(self) -> int:
        """Remove the least recently used entry and return its nodes."""
        program, _ = self.entries.pop(next(iter(self.entries)))
        self.nodes -= program.size
        return program.size


class ProgramCache:
    """Programs by cluster and expression.

    Clusters above their fair share make room for other clusters. A cluster whose conditions do not all fit keeps its
    cached ones. If it replaced the oldest one each time, no request would ever have a hit.
    """

    def __init__(self, max_nodes: int = MAX_NODES) -> None:
        """Create an empty cache.

        Args:
            max_nodes: The limit for the nodes of all programs together.
        """
        self._max_nodes: Final = max_nodes
        self._shares: Final[dict[str, _Share]] = {}
        self._nodes = 0

    @property
    def nodes(self) -> int:
        """The nodes of all cached programs."""
        return self._nodes

    def get(self, cluster: str, expression: str) -> Compiled | None:
        """Return a cached program, or None if the caller must compile it."""
        share = self._shares.get(cluster)
        if share is None:
            return None
        share.lookups += 1
        found = share.entries.pop(expression, None)
        if found is None:
            return None
        share.entries[expression] = (found[0], share.lookups)
        return found[0]

    def put(self, cluster: str, program: Compiled) -> None:
        """Cache a program if there is room for it."""
        share = self._shares.setdefault(cluster, _Share())
        if program.expression in share.entries or not self._make_room(share, program.size):
            if not share.entries:
                del self._shares[cluster]
            return
        share.entries[program.expression] = (program, share.lookups)
        share.nodes += program.size
        self._nodes += program.size

    def _make_room(self, share: _Share, size: int) -> bool:
        fair = self._max_nodes // len(self._shares)
        if size > self._max_nodes:
            return False
        while self._nodes + size > self._max_nodes:
            cluster, largest = max(self._shares.items(), key=lambda item: item[1].nodes)
            grows = largest is share or share.nodes + size > fair
            if grows and not largest.has_stale():
                return False
            self._nodes -= largest.drop_first()
            if not largest.entries and largest is not share:
                # Drop the empty share: it would reduce the fair share of the other clusters.
                del self._shares[cluster]
        return True
