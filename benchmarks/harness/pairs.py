"""Statistics of paired measurements: each sample of a program has a counterpart of every other one, taken at the same time.

Ranges are 95 % confidence ranges of the value before them, by bootstrap over the pairs.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.harness.rounds import Spread

RESAMPLES: Final = 400
LEAST: Final = 1e-3
"""The smallest divisor of a ratio: a difference of medians may be zero or negative on a busy machine."""

Sequences = Sequence[Sequence[float]]


def estimate(statistic: Callable[[Sequences], float], samples: Sequences) -> Spread:
    """Return a statistic of paired samples with its confidence range.

    Args:
        statistic: Computes the value from as many sequences as ``samples`` has.
        samples: Sequences of equal length; values at one index are a pair.
    """
    generator = random.Random(0)
    count = len(samples[0])
    found = sorted(
        statistic([[one[index] for index in chosen] for one in samples])
        for chosen in (generator.choices(range(count), k=count) for _ in range(RESAMPLES))
    )
    low, high = (found[round((RESAMPLES - 1) * share)] for share in (0.025, 0.975))
    return Spread(statistic(samples), low, high)


def median(samples: Sequences) -> float:
    return statistics.median(samples[0])


def ratio_of_medians(samples: Sequences) -> float:
    """Return the median of the first sequence relative to that of the second one."""
    over, under = map(statistics.median, samples)
    return over / max(under, LEAST)


def ratio_of_p99(samples: Sequences) -> float:
    """Return the 99th percentile of the first sequence relative to that of the second one."""
    over, under = map(p99, samples)
    return over / max(under, LEAST)


def p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def subtract(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the difference of each pair."""
    return [one - other for one, other in zip(values, base, strict=True)]
