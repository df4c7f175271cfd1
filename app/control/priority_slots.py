"""Slots for short and long work: short work goes first, and long work never occupies all slots."""

import contextlib
from collections.abc import AsyncIterator, Hashable
from functools import partial
from typing import Final

from app.control.fair_queue import FairQueue, wait_for_turn


class PrioritySlots:
    """Grants slots to short and long work; in both, lanes take turns (`app.control.fair_queue`).

    One slot is reserved for short work, so short work never waits for long work. With a single slot, it waits for at
    most one piece of long work.
    """

    def __init__(self, count: int) -> None:
        """Prepare ``count`` slots."""
        self._count: Final = count
        self._max_long: Final = max(1, count - 1)
        self._waiting: Final = {False: FairQueue(), True: FairQueue()}
        self._running = {False: 0, True: 0}

    @contextlib.asynccontextmanager
    async def hold(self, lane: Hashable, *, long: bool) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the block runs."""
        turn = self._waiting[long].join(lane)
        self._grant()
        await wait_for_turn(turn, give_back=partial(self._release, long=long))
        try:
            yield
        finally:
            self._release(long=long)

    def _release(self, *, long: bool) -> None:
        self._running[long] -= 1
        self._grant()

    def _grant(self) -> None:
        while sum(self._running.values()) < self._count:
            turn, long = self._waiting[False].next(), False
            if turn is None and self._running[True] < self._max_long:
                turn, long = self._waiting[True].next(), True
            if turn is None:
                return
            self._running[long] += 1
            turn.set_result(None)
