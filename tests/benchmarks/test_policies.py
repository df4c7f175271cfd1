"""The arithmetic of the benchmark of policies; `make bench` measures."""

import pytest

from benchmarks.cases import policies
from benchmarks.engines.admission_load import choose_evenly, summarize
from benchmarks.harness.load import Figures
from benchmarks.harness.rounds import Round, ratio

HUNDRED = "policies, 100 overriders in one namespace"
SPREAD = "policies, 100 overriders in as many namespaces"


def figures(create: float, update: float) -> Figures:
    return {
        f"{operation}_{key}": value
        for operation, p50 in (("create", create), ("update", update), ("template", 2 * update))
        for key, value in (("p50_ms", p50), ("p99_ms", 3 * p50), ("cpu_us", 1_000 * p50))
    }


def rounds(*by_policies: tuple[float, float]) -> list[Round]:
    """Return rounds in which a creation takes 2 ms and an update 4 ms with one constant policy."""
    return [
        {
            policies.NOTHING: figures(1, 3),
            policies.CONSTANT: figures(2, 4),
            HUNDRED: figures(*one),
            SPREAD: figures(2, 4),
        }
        for one in by_policies
    ]


def test_percentiles_and_cpu_are_those_of_one_request() -> None:
    found = summarize([number / 1_000 for number in range(101)], cpu=0.303)
    assert found == pytest.approx({"p50_ms": 50, "p99_ms": 99, "cpu_us": 3_000})


def test_writes_are_spread_over_the_overriders() -> None:
    assert choose_evenly(range(1_000), 100) == list(range(0, 1_000, 10))
    assert choose_evenly(range(3), 100) == [0, 1, 2]


def test_a_ratio_is_taken_within_a_round() -> None:
    slow = {name: {key: 10 * value for key, value in one.items()} for name, one in rounds((3, 4))[0].items()}
    found = ratio([*rounds((3, 4)), slow], "create_p50_ms", HUNDRED, policies.CONSTANT)
    assert found == (1.5, 1.5, 1.5)


def test_memory_is_compared_with_a_kube_apiserver_without_policies() -> None:
    one: Round = {policies.NOTHING: {"memory_mib": 300.0}, HUNDRED: {"memory_mib": 1_700.0}}
    two: Round = {policies.NOTHING: {"memory_mib": 302.0}, HUNDRED: {"memory_mib": 1_600.0}}
    lines = policies.tabulate_memory([one, two, one]).splitlines()
    assert lines[-1].split(" | ")[-2:] == ["1,700", "1,400 |"]


def test_the_goals_compare_each_operation_with_100_overriders() -> None:
    settings = policies.list_settings(policies.COUNTS)
    goals = policies.compare_with_goals(rounds((2.2, 6), (2.3, 4.8), (3, 5.6)), settings)
    assert [(one["found"], one["met"]) for one in goals] == [
        ("1.15 (1.10-1.50) times", True),
        ("1.40 (1.20-1.50) times", False),
        ("1.40 (1.20-1.50) times", False),
        *[("1.00 (1.00-1.00) times", True)] * 3,
    ]
    assert [HUNDRED in str(one["goal"]) for one in goals] == [True] * 3 + [False] * 3


def test_a_small_run_has_no_goals() -> None:
    assert policies.compare_with_goals(rounds((3, 5)), policies.list_settings(policies.SMALL_COUNTS)) == []
