"""Rounds, in which every compared program has a turn, with their medians and ratios.

A slower machine slows a whole round, so ratios are taken within a round. Medians over rounds come with their range.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.harness.load import Figures

Round = dict[str, Figures]
"""Figures by the name of the measured program."""

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
    """Return the figures of each program in each round: A B C, A B C, ..."""
    return [{name: measure() for name, measure in ways.items()} for _ in range(rounds)]


def spread(values: Iterable[float]) -> Spread:
    known = list(values)
    return Spread(statistics.median(known), min(known), max(known))


def figure(rounds: Sequence[Round], name: str, key: str) -> Spread:
    """Return one figure of one program over the rounds."""
    return spread(made[name][key] for made in rounds)


def ratio(rounds: Sequence[Round], key: str, over: str, under: str) -> Spread:
    """Return the ratio of a figure of ``over`` to that of ``under``, by round."""
    return spread(made[over][key] / made[under][key] for made in rounds)


def marked(rounds: Sequence[Round], name: str) -> int:
    """Return the number of rounds that one core did not limit: 5 % idle, or the load generator 90 % busy."""
    return sum(made[name]["server_cpu"] < SATURATED or made[name]["client_cpu"] > BUSY for made in rounds)
