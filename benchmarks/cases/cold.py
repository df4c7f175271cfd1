"""The first reviews of a new replica, the time until it is ready, and reviews in a cold cache."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.webhook import CONTROLLER_RUNTIME, LEAN, OURS
from benchmarks.engines.cold_server import Client, fleet_apiserver, reviews_of_fleet, start
from benchmarks.engines.scale_objects import Size
from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_least, at_most
from benchmarks.harness.load import Figures, Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import certificate, go, ours, run_servers
from benchmarks.harness.tables import table

SIZES = {"200 x 20": Size(200, 20), "2,000 x 50": Size(2_000, 50)}
SMALL_SIZES = {"20 x 5": Size(20, 5)}
EXAMPLES = "serve --manifests examples"
FIRST, SECOND, THIRD = "first", "second", "third"
RATE = 200
EVICTOR = """
import os, time
os.nice(19)
block = bytearray(32 << 20)
while True:
    bytes(block)
    time.sleep(0.001)
"""

ABOUT = """`fleethook serve` with all engines and compiled modules, started once for each round. *Ready* is its CPU until `/readyz` answers 200, and its memory then. A
program that answers lists and watches replaces the apiserver (YurtAppSets of the benchmark's template, with an overrider of two entries each).
Then one connection sends a review of one workload of each subject, and the same reviews twice more. A *warm* review is the third one.
The first one also compiles the plan of its subject."""
IN_COLD_CACHE = f"""{RATE} UPDATE reviews a second over one connection, without and with a program of the lowest priority on the server's core that copies 32 MiB
again and again, and so evicts the caches between two reviews. The servers are those of [the webhook](#the-webhook)."""


def run(context: Context) -> Section:
    sizes, rounds = (SMALL_SIZES, 1) if context.small else (SIZES, context.rounds)
    authority = certificate(context)
    _ready(context, authority)
    started = [{EXAMPLES: _ready(context, authority)} for _ in range(rounds)]
    fleets: list[Round] = [{} for _ in range(rounds)]
    for name, size in sizes.items():
        bodies = reviews_of_fleet(size)
        with fleet_apiserver(size, context.scratch, core=context.load_core) as kubeconfig:
            for found in fleets:
                found.update(_first_reviews(context, authority, name, kubeconfig, bodies))
    text = [ABOUT, _ready_table(started, fleets, sizes), _reviews_table(fleets, sizes)]
    figures = {"examples": started, "fleets": fleets}
    goals = _goals(started)
    if not context.small:
        cached = _measure_caches(context)
        text += [IN_COLD_CACHE, _cache_table(cached)]
        figures |= {"caches": cached}
        goals.append(
            at_least(
                "cold cache: CPU of controller-runtime for a review relative to ours", 4,
                ratio(cached, "cpu_us", _evicted(CONTROLLER_RUNTIME), _evicted(OURS)),
            )
        )  # fmt: skip
    return Section("A new replica, and cold caches", "\n\n".join(text), figures | {"goals": goals})


def _ready(context: Context, authority: Path) -> Figures:
    with start(("--manifests", ROOT / "examples"), context.scratch, core=context.server_core) as running:
        return Client(running, authority).wait_ready()


def _first_reviews(
    context: Context, authority: Path, name: str, kubeconfig: Path, bodies: list[bytes]
) -> dict[str, Figures]:
    with start(("--kubeconfig", kubeconfig), context.scratch, core=context.server_core) as running:
        client = Client(running, authority)
        found = {name: client.wait_ready()}
        for turn in (FIRST, SECOND, THIRD):
            found[f"{name}, {turn}"] = client.review(bodies)
        return found


def _measure_caches(context: Context) -> list[Round]:
    rows = {OURS: ours("fleethook"), LEAN: go(context, "lean"), CONTROLLER_RUNTIME: go(context, "controller-runtime")}
    load = Load(context.reviews("UPDATE"), connections=1, options=(f"--rate={RATE}",))
    with run_servers(context, rows) as servers:
        warm = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
        with _evicting(context.server_core):
            cold = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
    return [
        {**before, **{_evicted(name): of for name, of in after.items()}}
        for before, after in zip(warm, cold, strict=True)
    ]


def _evicted(name: str) -> str:
    return f"{name}, cold cache"


@contextlib.contextmanager
def _evicting(core: int) -> Iterator[None]:
    program = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", EVICTOR])
    try:
        yield
    finally:
        program.terminate()
        program.wait()


def _goals(started: list[Round]) -> list[dict[str, object]]:
    return [
        at_most(f"{EXAMPLES}: CPU until ready", 1, figure(started, EXAMPLES, "cpu"), unit="s"),
        at_most(f"{EXAMPLES}: memory", 80, figure(started, EXAMPLES, "mib"), unit="MiB", places=0),
    ]


def _ready_table(started: list[Round], fleets: list[Round], sizes: dict[str, Size]) -> str:
    lines = [
        [name, figure(rounds, name, "cpu").text(), f"{figure(rounds, name, 'mib').median:,.0f}"]
        for name, rounds in ((EXAMPLES, started), *((name, fleets) for name in sizes))
    ]
    return table(["subjects x pools", "CPU s until ready", "MiB"], lines)


def _reviews_table(fleets: list[Round], sizes: dict[str, Size]) -> str:
    lines = [
        [
            f"{name}, {turn}", *(f"{figure(fleets, f'{name}, {turn}', key).median:.2f}" for key in ("p50_ms", "p99_ms", "max_ms")),
            f"{figure(fleets, f'{name}, {turn}', 'cpu_us').median:,.0f}",
            *(
                "" if turn == THIRD else ratio(fleets, key, f"{name}, {turn}", f"{name}, {THIRD}").text()
                for key in ("cpu_us", "p50_ms", "p99_ms")
            ),
        ]
        for name in sizes
        for turn in (FIRST, SECOND, THIRD)
    ]  # fmt: skip
    header = [
        "review of each subject",
        "p50 ms",
        "p99 ms",
        "longest ms",
        "µs CPU",
        "CPU: to warm",
        "p50: to warm",
        "p99: to warm",
    ]
    return table(header, lines)


def _cache_table(cached: list[Round]) -> str:
    lines = [
        [
            name, *(f"{figure(cached, of, key).median:.2f}" for of in (name, _evicted(name)) for key in ("p50_ms", "p99_ms")),
            *(f"{figure(cached, of, 'cpu_us').median:,.0f}" for of in (name, _evicted(name))),
            "" if name == OURS else ratio(cached, "cpu_us", name, OURS).text(),
            "" if name == OURS else ratio(cached, "cpu_us", _evicted(name), _evicted(OURS)).text(),
        ]
        for name in (OURS, LEAN, CONTROLLER_RUNTIME)
    ]  # fmt: skip
    header = [
        "server", "p50 ms", "p99 ms", "p50 ms, cold", "p99 ms, cold", "µs CPU", "µs CPU, cold", f"CPU, it : {OURS}",
        f"CPU, it : {OURS}, cold",
    ]  # fmt: skip
    return table(header, lines)
