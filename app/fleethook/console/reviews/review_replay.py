"""Asks recorded reviews again with the current objects: "and now?"."""

import asyncio
from collections.abc import Sequence
from typing import Final

from fleethook.app import Fleethook, Outside
from fleethook.cluster.store import ObjectKey, Store
from fleethook.cluster.store.store import PARTIAL_KINDS, Stored
from fleethook.recorded_answers import RecordedHookLayer, answer_from_records
from fleethook.recordings.read.reader import Entry
from fleethook.recordings.replay.offline import OFFLINE
from fleethook.recordings.replay.replay import Replayed, Replayer
from fleethook.settings import Settings

# Reviews between two pauses for other requests; each takes 0.1 ms, or some milliseconds if a plan is compiled.
_PORTION: Final = 8


class ReviewReplay:
    """Decides with this build and the objects of a store. Webhooks and scripts answer as recorded."""

    def __init__(self, store: Store) -> None:
        """Prepare.

        Args:
            store: The objects, with the indexes of `fleethook.app.INDEXES`. It is still empty: the engines follow its
                changes.
        """
        outside = Outside(answer_from_records, RecordedHookLayer)
        self._app: Final = Fleethook(Settings(**OFFLINE), log=None, outside=outside, store=store)
        self._replayer: Final = Replayer(self._app.find_endpoint)
        # The calls of a review are in the context of one task, and engines may be used by one review at a time.
        self._turn: Final = asyncio.Lock()
        self.version = 0
        """Changes with each object that reviews depend on."""
        store.subscribe(self._note_change)

    async def replay(self, entries: Sequence[Entry]) -> list[Replayed]:
        """Return the result of asking reviews again, in their order."""
        found: list[Replayed] = []
        for start in range(0, len(entries), _PORTION):
            async with self._turn:
                await self._replayer.replay(entries[start : start + _PORTION], found.append)
        return found

    def _note_change(self, key: ObjectKey, _before: Stored | None, _after: object) -> None:
        self.version += key.group_kind not in PARTIAL_KINDS

    async def close(self) -> None:
        """End the threads and the clients of the engines."""
        self._app.runner.close()
        await self._app.hook_client.close()
        await self._app.webhook_client.close()
