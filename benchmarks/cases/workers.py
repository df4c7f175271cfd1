"""Two worker processes beside one, and the cost of the second.

With two cores none is left for the load generator, so it shares them equally on both sides: one worker and one
generator on one core, beside two workers and two generators on two cores. The generators take the same part of each
core, so the ratio of the two is that of the servers.
"""

import functools
import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Figures, Generator, Load
from benchmarks.harness.processes import Running, cpu_seconds, proportional_mib, serving
from benchmarks.harness.rounds import Round, figure, ratio, turns
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import certificate
from benchmarks.harness.tables import NOTE, table
from benchmarks.varied import stored
from fleethook.cluster.kubernetes.resources import DISPATCHING, INTERPRETING, RESOURCES, karmada_config
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.settings import Settings

ONE, TWO = "1 worker, 1 core", "2 workers, 2 cores"
CONNECTIONS = 16
HOW = (
    "UPDATE. With two cores none is left for the load generator, so it shares them equally on both sides: one worker and one "
    f"generator with {CONNECTIONS} connections on one core, beside two workers and two such generators on two cores. So the ratio is that of "
    "the servers. A connection belongs to the worker that accepts it first. Memory is that of all processes of the server, "
    "with shared pages counted once."
)


def ask(context: Context, running: Running, cores: tuple[int, ...], authority: Path) -> Figures:
    """Run a generator on each core at the same time, each with its own connections."""
    load = Load(context.reviews("UPDATE"), connections=CONNECTIONS)
    with ThreadPoolExecutor(len(cores)) as pool:
        generators = [Generator((context.binaries / "load",), [core], authority) for core in cores]
        asking = [pool.submit(one.ask, running, load, seconds=context.seconds, warmup=1.0) for one in generators]
        # A generator reads the CPU time of the workers at its own start, so no time between is lost.
        before = [cpu_seconds(pid) for pid in running.pids]
        found = [one.result() for one in asking]
    used = [cpu_seconds(pid) - was for pid, was in zip(running.pids, before, strict=True)]
    requests = sum(one["requests"] for one in found)
    # Each generator reads the CPU of all workers in its own seconds, which are the same but for the start of a process.
    server = statistics.mean(one["server_cpu"] for one in found)
    return {
        "requests_per_second": requests / context.seconds, "p99_ms": max(one["p99_ms"] for one in found),
        "cpu_us": server * context.seconds / requests * 1e6, "server_cpu": server,
        "client_cpu": sum(one["client_cpu"] for one in found), "busier": max(used) / sum(used),
        "memory_mib": proportional_mib({running.process.pid, *running.pids}),
    }  # fmt: skip


def run(context: Context) -> Section:
    manifests = context.scratch / "manifests"
    manifests.mkdir()
    (manifests / "objects.yaml").write_text("\n---\n".join(map(json.dumps, stored())))
    authority = certificate(context)
    both = (context.server_core, context.load_core)
    command = [
        sys.executable,
        "-m",
        "fleethook",
        "serve",
        "--port",
        "0",
        "--manifests",
        manifests,
        "--cert-dir",
        context.scratch,
    ]
    with (
        serving(command, cores=both[:1]) as one,
        serving([*command, "--workers", "2"], cores=both, processes=2) as two,
    ):
        ways = {
            ONE: functools.partial(ask, context, one, both[:1], authority),
            TWO: functools.partial(ask, context, two, both, authority),
        }
        rounds = turns(ways, context.rounds)
    more = ratio(rounds, "requests_per_second", TWO, ONE)
    memory = figure(rounds, TWO, "memory_mib").median - figure(rounds, ONE, "memory_mib").median
    figures = {
        "rounds": rounds, "watches": watches(), "goals": [at_least("requests/s of two workers, relative to one", 1.8, more)],
    }  # fmt: skip
    cost = (
        f"A second worker and the parent process take {memory:.0f} MiB more before there are objects. Each worker has its own store, "
        f"so each needs the memory for all objects. Each worker watches its {watches()} resources itself, so the apiserver has as many "
        "watches more. The leader's work is still done once."
    )
    text = "\n\n".join([HOW, _table(rounds), NOTE, cost])
    return Section("Two workers", text, figures)


def watches() -> int:
    """Return how many resources a worker with all engines follows."""
    return len(
        {
            *RESOURCES,
            *INTERPRETING,
            karmada_config(Settings().section(InterpretSettings).karmada_namespace),
            *DISPATCHING,
        }
    )


def _table(rounds: list[Round]) -> str:
    header = [
        "",
        "requests/s",
        f"of {ONE}",
        "p99 ms",
        "µs CPU / request",
        "cores of the server",
        "of the generators",
        "part of the busier worker",
        "MiB",
    ]
    return table(header, [
        [
            name, f"{figure(rounds, name, 'requests_per_second').median:,.0f}", ratio(rounds, "requests_per_second", name, ONE).text(),
            f"{figure(rounds, name, 'p99_ms').median:.2f}", f"{figure(rounds, name, 'cpu_us').median:.0f}",
            *(f"{figure(rounds, name, key).median:.2f}" for key in ("server_cpu", "client_cpu")),
            f"{figure(rounds, name, 'busier').median:.0%}", f"{figure(rounds, name, 'memory_mib').median:.0f}",
        ]
        for name in (ONE, TWO)
    ])  # fmt: skip
