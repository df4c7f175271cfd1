"""Pauses between requests for a resource, or a better version of it, that the apiserver does not serve."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

# After a CustomResourceDefinition is installed, each apiserver serves it within a second or two.
_FIRST_SECONDS: Final = 0.1


class DiscoveryPauses:
    """Long pauses; after a change of the definition, short ones that grow."""

    def __init__(self, seconds: float, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Prepare.

        Args:
            seconds: The longest pause.
            sleep: Sleeps for a number of seconds.
        """
        self._longest: Final = seconds
        self._sleep: Final = sleep
        self._next = seconds
        self._ended: Final = asyncio.Event()

    def end(self) -> None:
        """End the current pause, and continue with short ones."""
        self._next = min(_FIRST_SECONDS, self._longest)
        self._ended.set()

    async def pause(self) -> None:
        """Wait for one pause, or until `end`."""
        self._ended.clear()
        waits = [asyncio.ensure_future(self._sleep(self._next)), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self._ended.is_set():
            self._next = min(self._longest, 2 * self._next)
