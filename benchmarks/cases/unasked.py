"""Dispatch of reviews that match no webhook: nearly all reviews, if an apiserver sends every write."""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, FLOOR, LEAN, OURS
from benchmarks.engines.dispatch_worlds import OWNER, QUIET
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Figures, Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, ServerGroup, go, ours, run_servers
from benchmarks.harness.tables import servers_table, table

HOOKS = (10, 1_000)
DISPATCH = "dispatch, {count:,} webhooks"
ALONE, BESIDE = "alone", "beside the other tenant"
QUIET_RATE = 100

MEASURED = (
    "app/fleethook/server",
    "app/fleethook/app.py",
    "app/fleethook/work",
    "app/fleethook/engines/dispatch",
    "app/fleethook/fair_limits.py",
    "app/fleethook/model",
    "app/fleethook/cluster/store.py",
)

TENANTS = f"""Two tenants of the server with {HOOKS[-1]:,} webhooks. One sends {QUIET_RATE} reviews a second over one connection; its cluster has one webhook. The
other one owns all other webhooks, and sends reviews over 16 connections without a pause. Both load generators share a core, so the server is faster
than these figures."""

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
        tenants = [_measure_tenants(context, servers) for _ in range(context.rounds)]
    times = ratio(rounds, "requests_per_second", first, CONTROLLER_RUNTIME)
    goals = [at_least("dispatch, no webhook matches: requests/s relative to controller-runtime", 8, times)]
    parts = (ABOUT.format(cluster=OWNER), servers_table(rounds, first), TENANTS, _tenants_table(tenants))
    figures = {"rounds": rounds, "tenants": tenants, "goals": goals}
    return Section("Dispatch without a webhook to ask", "\n\n".join(parts), figures)


def _measure_tenants(context: Context, servers: ServerGroup) -> Round:
    name = DISPATCH.format(count=HOOKS[-1])
    body, running = context.reviews("UPDATE"), servers.running[name]
    options = (f"--path=/clusters/{QUIET}/mutate", "--expect=any", f"--rate={QUIET_RATE}")
    quiet = Load(body, connections=1, options=options)

    def ask() -> Figures:
        return servers.generator.ask(running, quiet, seconds=context.seconds, warmup=0.5)

    alone = ask()
    with ThreadPoolExecutor(1) as executor:
        other = executor.submit(servers.ask, Load(body), name, seconds=context.seconds + 2.0)
        beside = ask()
        other.result()
    return {ALONE: alone, BESIDE: beside}


def _tenants_table(tenants: list[Round]) -> str:
    keys = ("p50_ms", "p99_ms", "p999_ms")
    lines = [[name, *(figure(tenants, name, key).text() for key in keys)] for name in (ALONE, BESIDE)]
    return table(["reviews of the tenant", "p50 ms", "p99 ms", "p99.9 ms"], lines)


def _dispatching(hooks: int) -> Server:
    server = ours("fleethook", f"--hooks={hooks}")
    return server._replace(options=(f"--path=/clusters/{OWNER}/mutate", "--expect=any"))
