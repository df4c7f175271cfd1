"""The arithmetic of the benchmark of added latency; `make bench` measures."""

from collections.abc import Callable

from benchmarks.cases import admission
from benchmarks.cases.admission import Rows
from benchmarks.engines.admission_pairs import OPERATIONS, Found, Sample
from benchmarks.engines.admission_rows import CHANGED, NONE, NOOP, PATCH, SETTLED, WITHOUT

PAIRS = 20


def make_rows(*, settled: float = 1.2, reads: float = 0, slow: Callable[[int], float] = lambda _: 0) -> Rows:
    """Return rows in which a no-op adds 1 ms to 2 ms; ``slow`` is added to every write of a set."""
    added = {NONE: 0, NOOP: 1, PATCH: 2, WITHOUT: 0.5, SETTLED: settled, CHANGED: 3}
    samples = {
        name: {key: [Sample(2 + value + slow(number), 1_000 + 100 * value, 50) for number in range(PAIRS)] for key in OPERATIONS}
        for name, value in added.items()
    }  # fmt: skip
    nothing = dict.fromkeys(added, 0.0)
    return Rows(Found(samples, nothing | {SETTLED: reads}, nothing))


def list_goals(rows: Rows) -> dict[str, tuple[str, bool]]:
    return {one["goal"]: (one["found"], one["met"]) for one in admission.compare_with_goals(rows)}


def test_a_slow_set_changes_no_difference() -> None:
    goals = list_goals(make_rows(slow=lambda number: 100 * number))
    assert goals["fleethook, settled, CREATE: p50 added, relative to no-op, Go"] == ("1.20 (1.20-1.20) times", True)
    assert goals["fleethook, changed, CREATE: p50 added, relative to constant patch, Go"] == (
        "1.50 (1.50-1.50) times",
        True,
    )
    assert goals["fleethook, no overrider, CREATE: p50 added, relative to no-op, Go"] == (
        "0.50 (0.50-0.50) times",
        False,
    )
    assert goals["fleethook, settled, CREATE: CPU of kube-apiserver, relative to no-op, Go"][0].startswith("1.02 ")


def test_one_read_in_a_converged_fleet_misses_the_goal() -> None:
    goal = "fleethook, settled: reads for each write"
    assert list_goals(make_rows())[goal][1]
    assert not list_goals(make_rows(reads=0.01))[goal][1]
