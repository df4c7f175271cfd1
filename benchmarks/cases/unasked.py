"""Dispatch of reviews that match no webhook: nearly all reviews, if an apiserver sends every write."""

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, FLOOR, LEAN, OURS
from benchmarks.engines.dispatch_worlds import OWNER
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, go, ours, run_servers
from benchmarks.harness.tables import servers_table

HOOKS = (10, 1_000)
DISPATCH = "dispatch, {count:,} webhooks"

ABOUT = """A thousand different UPDATE reviews of Deployments, 16 connections, to `/clusters/{cluster}/mutate`; the cluster has mutating
webhooks, but none for Deployments. Our server decodes only the annotations of both objects. The other servers work at their usual
path, as described in [the webhook](#the-webhook): controller-runtime shows the cost of one additional webhook."""


def run(context: Context) -> Section:
    rows = {DISPATCH.format(count=count): _dispatching(count) for count in HOOKS}
    first = next(iter(rows))
    rows |= {
        OURS: ours("fleethook"),
        FLOOR: ours("floor"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
        LEAN: go(context, "lean"),
    }
    with run_servers(context, rows) as servers:
        rounds: list[Round] = servers.turns(
            Load(context.reviews("UPDATE")), rounds=context.rounds, seconds=context.seconds
        )
    times = ratio(rounds, "requests_per_second", first, CONTROLLER_RUNTIME)
    goals = [at_least("dispatch, no webhook matches: requests/s relative to controller-runtime", 8, times)]
    text = f"{ABOUT.format(cluster=OWNER)}\n\n{servers_table(rounds, first)}"
    return Section("Dispatch without a webhook to ask", text, {"rounds": rounds, "goals": goals})


def _dispatching(hooks: int) -> Server:
    server = ours("fleethook", f"--hooks={hooks}")
    return server._replace(options=(f"--path=/clusters/{OWNER}/mutate", "--expect=any"))
