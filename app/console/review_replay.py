"""Asks recorded reviews again with the current objects: "and now?"."""

import asyncio
from collections.abc import Sequence
from typing import Final

from app.asgi import Fleethook, Outside
from app.records.offline import OFFLINE
from app.records.reader import Entry
from app.records.recorded_answers import RecordedHookLayer, answer_from_records
from app.records.replay import Replayed, Replayer
from app.settings import Settings
from app.store import Store

MAX_REPLAYED: Final = 1_000
"""Reviews that one page asks again."""
# Reviews between two pauses for other requests; each takes 0.1 ms, or some milliseconds if a plan is compiled.
_PORTION: Final = 8


class ReviewReplay:
    """Decides with this build and the objects of a store. Webhooks and scripts answer as recorded."""

    def __init__(self, store: Store) -> None:
        """Prepare.

        Args:
            store: The objects, with the indexes of `app.asgi.INDEXES`. It is still empty: the engines follow its
                changes.
        """
        outside = Outside(answer_from_records, RecordedHookLayer)
        self._app: Final = Fleethook(Settings(**OFFLINE), log=None, outside=outside, store=store)
        self._replayer: Final = Replayer(self._app.find_endpoint)
        # The calls of a review are in the context of one task, and engines may be used by one review at a time.
        self._turn: Final = asyncio.Lock()

    async def replay(self, entries: Sequence[Entry]) -> list[Replayed]:
        """Return the result of asking reviews again, in their order; at most `MAX_REPLAYED` of them."""
        found: list[Replayed] = []
        chosen = entries[:MAX_REPLAYED]
        async with self._turn:
            for start in range(0, len(chosen), _PORTION):
                await self._replayer.replay(chosen[start : start + _PORTION], found.append)
        return found

    async def close(self) -> None:
        """End the threads and the clients of the engines."""
        self._app.runner.close()
        await self._app.hook_client.close()
        await self._app.webhook_client.close()
