"""Statistics of paired measurements."""

import os
import random
import time

import pytest

from benchmarks.harness.pairs import estimate, median, ratio_of_medians, ratio_of_p99, subtract
from benchmarks.harness.processes import cpu_microseconds


def test_differences_of_pairs_do_not_depend_on_the_load() -> None:
    load = [random.Random(number).uniform(0, 100) for number in range(50)]
    found = estimate(median, [subtract([one + 3 for one in load], load)])
    assert [round(value, 6) for value in found] == [3, 3, 3]


def test_the_range_holds_the_median_and_shrinks_with_more_pairs() -> None:
    def spread_of(count: int) -> float:
        values = [random.Random(number).gauss(10, 1) for number in range(count)]
        found = estimate(median, [values])
        assert found.low <= found.median <= found.high
        return found.high - found.low

    assert spread_of(400) < spread_of(25) / 2


def test_a_ratio_resamples_pairs_together() -> None:
    under = [float(number) for number in range(1, 101)]
    over = [2 * one for one in under]
    # Resampled apart, the ratio would vary.
    found = estimate(ratio_of_medians, (over, under))
    assert [round(one, 6) for one in found] == [2, 2, 2]
    assert estimate(ratio_of_p99, (over, under)).median == pytest.approx(2)


def test_the_clock_of_a_process_counts_its_work() -> None:
    before = cpu_microseconds(os.getpid())
    used = time.process_time()
    while time.process_time() - used < 0.02:
        pass
    assert cpu_microseconds(os.getpid()) - before >= 20_000
