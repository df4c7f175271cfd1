"""One unsaturated connection: the latency for an apiserver that sends few reviews."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, FLOOR, JSONV2, LEAN, OURS
from benchmarks.harness.goals import at_most
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import go, ours, run_servers
from benchmarks.harness.tables import NOTE, table

RATE = 200
"""Requests per second: a fifth of the maximum of controller-runtime's server."""
COLUMNS = {"p50 ms": "p50_ms", "p90 ms": "p90_ms", "p99 ms": "p99_ms", "p99.9 ms": "p999_ms"}

ABOUT = f"""A thousand different UPDATE reviews, one after the other, {RATE} a second, over one keep-alive connection. Each server has its own core
and idles between requests, so it also has to wake up. Time from the first byte of a request to the last byte of its answer."""


def run(context: Context) -> Section:
    rows = {
        OURS: ours("fleethook"),
        FLOOR: ours("floor"),
        LEAN: go(context, "lean"),
        JSONV2: go(context, "lean-jsonv2"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
    }
    load = Load(context.reviews("UPDATE"), connections=1, options=(f"--rate={RATE}",))
    with run_servers(context, rows) as servers:
        rounds = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
    goals = [
        at_most(f"one connection: {name} relative to hand-tuned Go", 1, ratio(rounds, key, OURS, LEAN))
        for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"))
    ]
    text = "\n\n".join((ABOUT, _table(rounds), NOTE))
    return Section("One connection, unsaturated", text, {"rounds": rounds, "goals": goals})


def _table(rounds: list[Round]) -> str:
    header = ["server", *COLUMNS, "µs CPU / request", f"p50: {OURS} : it", f"p99: {OURS} : it"]
    lines = [
        [
            name, *(f"{figure(rounds, name, key).median:.3f}" for key in COLUMNS.values()),
            f"{figure(rounds, name, 'cpu_us').median:,.0f}",
            *("" if name == OURS else ratio(rounds, key, OURS, name).text() for key in ("p50_ms", "p99_ms")),
        ]
        for name in rounds[0]
    ]  # fmt: skip
    return table(header, lines)
