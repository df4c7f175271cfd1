"""The garbage collector and a large store: the slowest reviews with 1,000 and with 1,000,000 workloads in it."""

from benchmarks.harness.goals import at_most
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.harness.tables import footnotes, mark, table

FEW, MANY, DEFAULT = "1,000 workloads", "1,000,000 workloads", "1,000,000 workloads, Python's own collector settings"
CHURN = 100

ROWS = {
    FEW: ours("fleethook", "--objects=1000", f"--churn={CHURN}"),
    MANY: ours("fleethook", "--objects=1000000", f"--churn={CHURN}"),
    DEFAULT: ours("fleethook", "--objects=1000000", f"--churn={CHURN}", "--collector=default"),
}


def run(context: Context) -> Section:
    with run_servers(context, ROWS) as servers:
        rounds = servers.turns(Load(context.reviews("UPDATE")), rounds=context.rounds, seconds=context.seconds)
    slower = {name: ratio(rounds, "p999_ms", name, FEW) for name in ROWS}
    lines = [
        [
            name + mark(rounds, name), *(f"{figure(rounds, name, key).median:.2f}" for key in ("p50_ms", "p99_ms", "p999_ms")),
            f"{figure(rounds, name, 'max_ms').high:.1f}", slower[name].text(), f"{figure(rounds, name, 'rss_mib').median:,.0f}",
        ]
        for name in ROWS
    ]  # fmt: skip
    header = [
        "in the store",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "maximum ms",
        f"p99.9 relative to {FEW.split(maxsplit=1)[0]}",
        "MiB",
    ]
    text = (
        f"UPDATE over 16 connections, while {CHURN} workloads a second are replaced, as by a watch. The store keeps partial "
        "workloads. After loading, the server excludes them from garbage collection (`gc.freeze`) and raises the collector's "
        "thresholds (`app/fleethook/cluster/followed_objects.py`). The last row undoes both.\n\n"
        + table(header, lines)
        + "\n\n"
        + footnotes(rounds)
    )
    goal = at_most("p99.9 with 1,000,000 objects in the store, relative to 1,000", 2, slower[MANY])
    return Section("1,000,000 objects in the store", text, {"rounds": rounds, "goals": [goal]})
