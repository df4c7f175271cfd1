"""Measurements without a server: CPU time of calls, programs of the Go peers, ratios by round."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness.processes import output
from benchmarks.harness.rounds import Spread, spread
from benchmarks.harness.section import Context


@contextlib.contextmanager
def pin_to_core(core: int) -> Iterator[None]:
    """Keep this process on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_us(call: Callable[[], object], seconds: float = 0.3) -> float:
    """Return the microseconds of CPU time that a call takes."""
    call()
    count, started = 0, time.process_time()
    while (spent := time.process_time() - started) < seconds:
        call()
        count += 1
    return spent / count * 1e6


def lines(text: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a program's output."""
    return [json.loads(line) for line in text.splitlines()]


def go(context: Context, program: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the lines that one of the Go peers prints, on the server's core."""
    return lines(output([context.binaries / program, *arguments], cores=[context.server_core]))


class Measured(dict[str, list[float]]):
    """Values by the name of the measured variant, one for each round."""

    def add(self, name: str, value: float) -> None:
        self.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        """Return the median with its range."""
        return text(spread(self[name]))

    def ratio(self, over: str, under: str) -> Spread:
        """Return how many times ``over`` is ``under``, by round."""
        return ratio(self[over], self[under])

    def figures(self) -> dict[str, Any]:
        """Return the figures for `benchmarks/results.json`."""
        return {name: spread(values)._asdict() | {"rounds": values} for name, values in self.items()}


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Return the ratio by round."""
    return spread(one / other for one, other in zip(over, under, strict=True))


def text(value: Spread) -> str:
    """Return a median with its range, in three digits or so."""
    return value.text(2 if value.median < 10 else 1 if value.median < 100 else 0)
