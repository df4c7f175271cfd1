"""When CPython's garbage collector runs, so that no run holds the event loop for long.

Reference counting frees nearly all objects; the collector only finds cycles. A run visits all objects of its
generations in one step: 0.4 s for 10,000 webhook configurations with compiled conditions. ``gc.freeze`` exempts
long-lived objects from it. Reference counting still frees these, because they are in no cycles.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

# A review allocates about 500 containers. Reference counting frees them, because JSON has no cycles. By default, the
# collector runs every 700 allocations, so several times in each review, and finds nothing. A run over 50,000 young
# objects blocked the process for 2 ms, and for 75 ms on a busy machine, so it runs after 5,000. The objects that
# survive are examined again after 100,000 allocations: after a million, which 100,000 compiled plans make, that took
# 190 ms. All other objects are examined after 20 million.
_THRESHOLDS: Final = (5_000, 20, 200)
# Containers between two freezes. The collection before a freeze blocks the process: on a busy machine 5 to 53 ms for
# this many, and 25 to 209 ms for 100,000.
_FREEZE_LIMIT: Final = 20_000


def settle_garbage_collector() -> None:
    """Exempt all loaded objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


@contextlib.contextmanager
def pause_garbage_collector() -> Iterator[None]:
    """Pause garbage collection within the context, then exempt the objects that were read.

    A run over the 100,000 workloads of a new leader takes 0.2 s, during which no review is answered. Without the pause,
    several runs would happen while the workloads are read.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class GCFreezer:
    """Freezes the heap each time that enough long-lived containers were created."""

    __slots__ = ("_limit", "_made")

    def __init__(self, limit: int = _FREEZE_LIMIT) -> None:
        """Start with no containers; ``limit`` of them are between two freezes."""
        self._limit: Final = limit
        self._made = 0

    def add(self, containers: int) -> None:
        """Count new containers (an estimate suffices), and freeze the heap at the limit."""
        self._made += containers
        if self._made >= self._limit:
            self._made = 0
            # A freeze would keep the cycles of ended requests for ever, so they are collected first.
            gc.collect(1)
            gc.freeze()
