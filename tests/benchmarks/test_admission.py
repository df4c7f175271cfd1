"""The arithmetic of the benchmark of added latency; `make bench` measures."""

from benchmarks.cases import admission
from benchmarks.engines.admission_rows import POLICY
from benchmarks.harness.load import Figures
from benchmarks.harness.rounds import Round


def figures(p50: float, *, reads: float = 0) -> Figures:
    """Return figures of a row whose three kinds of writes take ``p50`` milliseconds."""
    keys = {"p50_ms": p50, "p99_ms": 10 * p50, "cpu_us": 1_000 * p50, "hook_us": 500}
    found = {f"{operation}_{key}": float(value) for operation in admission.OPERATIONS for key, value in keys.items()}
    return {**found, "reads": reads, "writes": 0.0}


def make_round(*, noop: float, settled: float, reads: float = 0) -> Round:
    """Return a round in which a write takes 2 ms without a webhook."""
    fixed = {admission.PATCH: 4.0, admission.CHANGED: 5.0, admission.WITHOUT: 2.5, POLICY: 3.0}
    return {
        admission.NONE: figures(2),
        admission.NOOP: figures(noop),
        admission.SETTLED: figures(settled, reads=reads),
        **{name: figures(value) for name, value in fixed.items()},
    }


def test_a_round_is_compared_with_the_median_that_the_other_row_adds() -> None:
    # The second round is faster with a webhook than without one.
    found = [make_round(noop=3, settled=3.2), make_round(noop=1.9, settled=3.3), make_round(noop=3, settled=3.1)]
    goals = {one["goal"]: (one["found"], one["met"]) for one in admission.compare_with_goals(found)}
    assert goals["fleethook, settled, CREATE: p50 added, relative to no-op, Go"] == ("1.20 (1.10-1.30) times", True)
    assert goals["fleethook, changed, CREATE: p50 added, relative to constant patch, Go"] == (
        "1.50 (1.50-1.50) times",
        True,
    )
    assert goals["fleethook, no overrider, CREATE: p50 added, relative to no-op, Go"] == (
        "0.50 (0.50-0.50) times",
        False,
    )
    assert goals["fleethook, settled, CREATE: CPU of kube-apiserver, relative to no-op, Go"][0].startswith("1.07 ")
    # A settled workload is changed by an update from the template, so it has no goal there.
    assert not any("settled, UPDATE from the template" in goal for goal in goals)


def test_one_read_in_a_converged_fleet_misses_the_goal() -> None:
    goal = "fleethook, settled: reads for each write"
    for reads, met in ((0.0, True), (0.01, False)):
        found = [make_round(noop=3, settled=3, reads=reads)]
        assert [one["met"] for one in admission.compare_with_goals(found) if one["goal"] == goal] == [met]


def test_added_latency_is_relative_to_the_same_round() -> None:
    busy = {
        name: {key: 10 * value for key, value in one.items()} for name, one in make_round(noop=3, settled=4).items()
    }
    row = admission.tabulate([make_round(noop=3, settled=4), busy], "create").splitlines()[4]
    assert row.split(" | ")[3:5] == ["11.00 (2.00-20.00)", "2.00 (0.36-3.64)"]
