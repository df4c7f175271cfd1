"""The resourceVersion that a watch has reached, and the callers that wait for one."""

import asyncio
import heapq
import itertools
from typing import Final

from fleethook.cluster.kubernetes.list_watch_decoding import as_number


class Progress:
    """The progress of the watch of one resource.

    Attributes:
        place: The resourceVersion from which a watch continues.
        seen: The resourceVersion up to which all changes have been seen.
        changed: The resourceVersion of the last change that was seen; all replicas see the same one. A bookmark may
            move `seen` further, and each replica receives bookmarks at another time.
    """

    def __init__(self) -> None:
        self.place = ""
        self.seen = 0
        self.changed = 0
        self._waiting: Final[list[tuple[int, int, asyncio.Future[None]]]] = []
        self._tickets: Final = itertools.count()

    async def wait_for(self, resource_version: int) -> None:
        """Return as soon as all changes up to ``resource_version`` have been seen."""
        if self.seen >= resource_version:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (resource_version, next(self._tickets), future))
        await future

    def restart(self, place: str) -> None:
        """Record that a complete list was read."""
        # A list is older than the former watch only if etcd was restored from a backup.
        self.seen = 0
        self.change(place)

    def change(self, place: str) -> None:
        """Record a change."""
        self.advance(place)
        self.changed = self.seen

    def advance(self, place: str) -> None:
        """Record a bookmark: no other change has a lower resourceVersion."""
        self.place = place
        self.seen = max(self.seen, as_number(place))
        while self._waiting and self._waiting[0][0] <= self.seen:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
