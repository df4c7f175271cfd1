"""Slots for work that takes long: short work first, long work never in all slots, and some slots for each lane."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from functools import partial
from typing import Final

from app.control.fair_queue import FairQueue, wait_for_turn
from app.control.shares import Shares


class PrioritySlots:
    """Grants slots to short and long work; in both, lanes take turns (`app.control.fair_queue`).

    One slot is reserved for short work, so short work never waits for long work. With a single slot, it waits for at
    most one piece of long work.
    """

    def __init__(self, count: int, *, reserved: int = 0) -> None:
        """Prepare.

        Args:
            count: How many slots there are.
            reserved: How many of them only lanes get that hold none.
        """
        self._max_long: Final = max(1, count - 1)
        self._shares: Final = Shares(count, reserved=reserved)
        self._waiting: Final = {False: FairQueue(), True: FairQueue()}
        self._running = Counter({False: 0, True: 0})

    @contextlib.asynccontextmanager
    async def hold(self, lane: Hashable, *, long: bool = False) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the block runs."""
        turn = self._waiting[long].join(lane)
        self._grant()
        await wait_for_turn(turn, give_back=partial(self._release, lane, long=long))
        try:
            yield
        finally:
            self._release(lane, long=long)

    def _release(self, lane: Hashable, *, long: bool) -> None:
        self._shares.give_back(lane)
        self._running[long] -= 1
        self._grant()

    def _grant(self) -> None:
        while not self._shares.exhausted:
            found, long = self._waiting[False].next_of(self._shares.allows), False
            if found is None and self._running[True] < self._max_long:
                found, long = self._waiting[True].next_of(self._shares.allows), True
            if found is None:
                return
            lane, turn = found
            self._shares.take(lane)
            self._running[long] += 1
            turn.set_result(None)
