"""A queue in lanes that take turns, so that a lane with 10,000 waiting callers does not delay another lane."""

import asyncio
import itertools
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
        """Return the first future of the lane whose turn it is; None if no future waits any more."""
        found = self.next_of(lambda _: True)
        return None if found is None else found[1]

    def next_of(self, eligible: Callable[[Hashable], bool]) -> "tuple[Hashable, asyncio.Future[None]] | None":
        """Return the next eligible lane and its first future; None if no eligible lane has one."""
        while found := list(itertools.islice(filter(eligible, self._waiting), 1)):
            (lane,) = found
            turns = self._waiting.pop(lane)
            turn = turns.popleft()
            if turns:
                self._waiting[lane] = turns
            if not turn.done():
                return lane, turn
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
