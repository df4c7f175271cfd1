"""The same UPDATE over 256 connections: what many apiservers, or one under load, hold open."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, FLOOR, LEAN, OURS
from benchmarks.harness.field import field, go, ours
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round
from benchmarks.harness.section import Context, Section
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
    with field(context, rows) as servers:
        rounds: list[Round] = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
    text = (
        f"UPDATE as above, {CONNECTIONS} connections instead of 16, all of them asking all the time: latency is "
        "the time in a queue of that length.\n\n"
    )
    return Section("256 connections", text + servers_table(rounds, OURS), {"rounds": rounds})
