"""Rounds, in which everything that is compared has its turn, and what is made of them.

A machine that slows down slows all of a round, so ratios are taken within a round, and medians over rounds are told
with their range.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.harness.load import Figures

Round = dict[str, Figures]
"""Figures by what was measured."""

SATURATED = 0.95
BUSY = 0.9


class Spread(NamedTuple):
    """A median over rounds, and its range."""

    median: float
    low: float
    high: float

    def text(self, places: int = 2) -> str:
        return f"{self.median:,.{places}f} ({self.low:,.{places}f}-{self.high:,.{places}f})"


def turns(ways: Mapping[str, Callable[[], Figures]], rounds: int) -> list[Round]:
    """Return the figures of each way in each round: A B C, A B C, ..."""
    return [{name: measure() for name, measure in ways.items()} for _ in range(rounds)]


def spread(values: Iterable[float]) -> Spread:
    known = list(values)
    return Spread(statistics.median(known), min(known), max(known))


def figure(rounds: Sequence[Round], name: str, key: str) -> Spread:
    """Return one figure of one way over the rounds."""
    return spread(made[name][key] for made in rounds)


def ratio(rounds: Sequence[Round], key: str, over: str, under: str) -> Spread:
    """Return how many times a figure of ``over`` is that of ``under``, by round."""
    return spread(made[over][key] / made[under][key] for made in rounds)


def marked(rounds: Sequence[Round], name: str) -> int:
    """Return in how many rounds a server of one core was not the limit: idle for 5 %, or its load generator busy for 90 %."""
    return sum(made[name]["server_cpu"] < SATURATED or made[name]["client_cpu"] > BUSY for made in rounds)
