"""The cost of an UPDATE with 100 to 1,000,000 overriders in the store: constant, because an index finds them."""

from benchmarks.harness.goals import at_most
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.harness.tables import footnotes, mark, table

COUNTS = (100, 1_000, 100_000, 1_000_000)


def run(context: Context) -> Section:
    names = {count: f"{count:,} overriders" for count in COUNTS}
    rows = {names[count]: ours("fleethook", f"--overriders={count}") for count in COUNTS}
    with run_servers(context, rows) as servers:
        rounds = servers.turns(Load(context.reviews("UPDATE")), rounds=context.rounds, seconds=context.seconds)
    fewest, most = (names[count] for count in (COUNTS[0], COUNTS[-1]))
    costs = {name: ratio(rounds, "cpu_us", name, fewest) for name in rows}
    kib = [figure(rounds, name, "rss_mib").median * 1024 for name in (fewest, most)]
    lines = [
        [
            name + mark(rounds, name), f"{figure(rounds, name, 'requests_per_second').median:,.0f}",
            f"{figure(rounds, name, 'cpu_us').median:.0f}", costs[name].text(),
            f"{figure(rounds, name, 'p99_ms').median:.2f}", f"{figure(rounds, name, 'rss_mib').median:,.0f}",
        ]
        for name in rows
    ]  # fmt: skip
    header = ["in the store", "requests/s", "µs CPU / request", f"relative to {COUNTS[0]}", "p99 ms", "MiB"]
    text = (
        "UPDATE over 16 connections. Overriders are decoded from text like an apiserver's list. Each has its own subject, and all reviews "
        f"are about one of these. An overrider takes {(kib[1] - kib[0]) / (COUNTS[-1] - COUNTS[0]):.1f} KiB.\n\n"
        + table(header, lines)
        + "\n\n"
        + footnotes(rounds)
    )
    goal = at_most("CPU of an UPDATE with 1,000,000 overriders, relative to 100", 1.1, costs[most])
    bar = [Bar(name, figure(rounds, name, "cpu_us"), ours=True) for name in rows]
    plot = bars("overriders", "µs CPU of an UPDATE", bar)
    return Section("100 to 1,000,000 overriders", text, {"rounds": rounds, "goals": [goal]}, (plot,))
