"""A queue in lanes that take turns, so that a lane with 10,000 waiting callers does not delay another lane."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final


class FairQueue:
    """Waiting futures by lane; a lane is a caller among which turns are shared, for example a logical cluster."""

    def __init__(self) -> None:
        """Start with an empty queue."""
        self._waiting: Final[OrderedDict[Hashable, deque[asyncio.Future[None]]]] = OrderedDict()

    def __bool__(self) -> bool:
        """Return whether any future waits, including cancelled ones."""
        return bool(self._waiting)

    def join(self, lane: Hashable) -> "asyncio.Future[None]":
        """Return a future that waits behind all others of the lane."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lane, deque()).append(turn)
        return turn

    def next(self) -> "asyncio.Future[None] | None":
        """Remove and return the first future of the next lane; None if no future waits."""
        while self._waiting:
            lane, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[lane] = turns
            if not turn.done():
                return turn
        return None


async def wait_for_turn(turn: "asyncio.Future[None]", *, give_back: Callable[[], None]) -> None:
    """Wait for a turn.

    Args:
        turn: A future from `FairQueue.join`.
        give_back: Called if the waiting task is cancelled at the moment of the grant.
    """
    try:
        await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            give_back()
        raise
