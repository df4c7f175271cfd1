"""The same UPDATE over 256 connections, as many apiservers or one busy apiserver hold open."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, FLOOR, LEAN, OURS
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import go, ours, run_servers
from benchmarks.harness.tables import servers_table

CONNECTIONS = 256


def run(context: Context) -> Section:
    rows = {
        OURS: ours("fleethook"),
        FLOOR: ours("floor"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
        LEAN: go(context, "lean"),
    }
    load = Load(context.reviews("UPDATE"), connections=CONNECTIONS)
    with run_servers(context, rows) as servers:
        rounds: list[Round] = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
    text = (
        f"UPDATE as above, over {CONNECTIONS} connections instead of 16. Each connection always has a request in flight, so "
        "latency is the time in a queue of that length.\n\n"
    )
    return Section("256 connections", text + servers_table(rounds, OURS), {"rounds": rounds})
