"""How far a resource was followed, and who waits for that."""

import asyncio
import heapq
import itertools
from typing import Final

from app.store.sources.kubernetes.wire import as_number


class Progress:
    """The place in a resource's history.

    Attributes:
        place: The resourceVersion from which a watch continues.
        seen: The resource version up to which everything has been seen.
        changed: The resource version of the last change that was seen, which every other follower sees, too. `seen` may
            be further by a bookmark, and bookmarks come to each follower at another time.
    """

    def __init__(self) -> None:
        self.place = ""
        self.seen = 0
        self.changed = 0
        self._waiting: Final[list[tuple[int, int, asyncio.Future[None]]]] = []
        self._tickets: Final = itertools.count()

    async def wait_for(self, resource_version: int) -> None:
        """Return as soon as everything up to ``resource_version`` has been seen."""
        if self.seen >= resource_version:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (resource_version, next(self._tickets), future))
        await future

    def restart(self, place: str) -> None:
        """Take note that a whole list was read."""
        # A list may be older than what was seen before only if the server's own history was set back.
        self.seen = 0
        self.change(place)

    def change(self, place: str) -> None:
        """Take note of a change."""
        self.advance(place)
        self.changed = self.seen

    def advance(self, place: str) -> None:
        """Take note of a bookmark: nothing else has changed up to there."""
        self.place = place
        self.seen = max(self.seen, as_number(place))
        while self._waiting and self._waiting[0][0] <= self.seen:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
