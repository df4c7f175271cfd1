"""Cost of an UPDATE review by stage, in µs, and a flame graph."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.engines.measure import Measured, pin_to_core, text
from benchmarks.engines.stages import (
    ANSWERING,
    CONNECTION,
    LOOP,
    READ,
    STAGES,
    TIMED,
    TITLES,
    TLS,
    WRITE,
    shares,
    sockets_us,
    tls_us,
)
from benchmarks.harness.goals import at_most
from benchmarks.harness.load import Generator, Load
from benchmarks.harness.plots import PLOTS
from benchmarks.harness.processes import serving
from benchmarks.harness.rounds import Round, Spread, marked, spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import FIRST_SECONDS, Server, certificate, ours, run_servers
from benchmarks.harness.tables import table
from benchmarks.servers.ours import serving_context
from benchmarks.varied import size_of

WHOLE = "fleethook"
PROFILE_SECONDS = 8
TURNS = 3
"""For each round."""
HEADERS, ANSWER, RECORD = 220, 1_560, 22
"""Bytes of the headers of a request, of an answer with its headers, and of the TLS overhead of a record."""
MODULE = (sys.executable, "-m", "benchmarks.engines.stage_server")

ABOUT = """UPDATE over 16 keep-alive connections; µs of CPU for each request, including everything that the process does. *By difference*: servers that
stop after a stage, and then send the same answer as the complete server, are measured in turns. The cost of a stage is the difference to the server before it,
by round. The first of them is the event loop with its TLS and constant bytes. TLS and the two system calls are *timed alone* (with as many
bytes, through memory as the loop does, and over loopback); the loop is the rest. *In place*: the CPU clock is read between the stages of
the complete server, and its own cost is subtracted. *py-spy*: share of its samples in the total (stacks of the complete server, including native frames, sampled
{rate} times a second). Objects of a stage are freed after it: *by difference* adds that to the stage, the other two do not. The stages add up to {sum:.1f} µs. The complete server,
which is measured in the same rounds and shares only the app with the others, takes {total} µs: {off:.1f} % off."""
RATE = 200


def run(context: Context) -> Section:
    """Measure the servers, time TLS and system calls alone, and take two profiles."""
    body = context.reviews("UPDATE")
    rounds, timers = _rounds(context, body)
    alone = _alone(context, round(size_of(body)))
    stages = _stages(rounds, alone)
    profile = shares(_profile(context, body, "raw", context.scratch / "profile.txt").read_text())
    PLOTS.mkdir(exist_ok=True)
    flames = _set_title(_profile(context, body, "flamegraph", PLOTS / "update.svg"))
    total = spread(made[WHOLE]["cpu_us"] for made in rounds)
    summed = sum(spread(values).median for values in stages.values())
    off = abs(summed / total.median - 1) * 100
    figures = {
        "stages us": stages.figures(), "in place us": timers, "py-spy shares": profile, "total us": total._asdict(),
        "sum us": summed, "marked rounds": {name: marked(rounds, name) for name in rounds[0]},
        "goals": [at_most("stages add up to the total", 5, Spread(off, off, off), unit="% off", places=1)],
    }  # fmt: skip
    about = ABOUT.format(rate=RATE, sum=summed, total=total.text(1), off=off)
    return Section(
        "Where the time goes", f"{about}\n\n{_table(stages, timers, profile, total.median)}", figures, (flames,)
    )


def _set_title(flames: Path) -> Path:
    """Give a graph a title; py-spy puts its command line there, with paths of the machine."""
    text = re.sub(r'(<text id="title"[^>]*>)[^<]*', r"\1fleethook, UPDATE reviews", flames.read_text(), count=1)
    flames.write_text(text)
    return flames


def _rounds(context: Context, body: Path) -> tuple[list[Round], dict[str, float]]:
    timers = context.scratch / "timers.json"
    servers = {stage: Server((*MODULE, stage)) for stage in STAGES}
    servers |= {WHOLE: ours("fleethook"), TIMED: Server((*MODULE, TIMED, f"--timers={timers}"))}
    with run_servers(context, servers) as running:
        # Many short turns: the machine changes less between two neighbours whose difference is taken.
        rounds = running.turns(Load(body), rounds=context.rounds * TURNS, seconds=min(context.seconds, 1.0))
    return rounds, json.loads(timers.read_text())


def _alone(context: Context, size: int) -> dict[str, list[float]]:
    request, authority = size + HEADERS, certificate(context)
    found: dict[str, list[float]] = {TLS: [], READ: [], WRITE: []}
    with pin_to_core(context.server_core):
        for _ in range(context.rounds * TURNS):
            found[TLS].append(tls_us(serving_context(context.scratch), authority, request, ANSWER))
            reading, writing = sockets_us(request + RECORD, ANSWER + RECORD)
            found[READ].append(reading)
            found[WRITE].append(writing)
    return found


def _stages(rounds: list[Round], alone: dict[str, list[float]]) -> Measured:
    stages = Measured(alone)
    for number, made in enumerate(rounds):
        stages.add(LOOP, made[CONNECTION]["cpu_us"] - sum(values[number] for values in alone.values()))
    for before, stage in pairwise(STAGES):
        for made in rounds:
            stages.add(stage, made[stage]["cpu_us"] - made[before]["cpu_us"])
    return stages


@contextmanager
def _run_loaded_server(context: Context, body: Path, seconds: float) -> Any:
    """Provide the pid of our server while it gets requests."""
    authority = certificate(context)
    generator = Generator((context.binaries / "load",), [context.load_core], authority)
    command = [*ours("fleethook").command, "--cert-dir", context.scratch]
    with serving(command, cores=[context.server_core]) as running, ThreadPoolExecutor(1) as pool:
        generator.ask(running, Load(body), seconds=FIRST_SECONDS, warmup=0.0)
        asking = pool.submit(generator.ask, running, Load(body), seconds=seconds, warmup=0.5)
        yield running.process.pid
        asking.result()


def _profile(context: Context, body: Path, form: str, into: Path) -> Path:
    """Write a profile of our server while it gets requests."""
    spy = context.python.parent / "py-spy"
    with _run_loaded_server(context, body, PROFILE_SECONDS + 3) as pid:
        command = [spy, "record", "--native", "--rate", str(RATE), "--duration", str(PROFILE_SECONDS), "--format", form]
        done = subprocess.run(
            [*command, "--output", into, "--pid", str(pid)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"py-spy: {done.stderr[-1000:]}")
    return into


def _table(stages: Measured, timers: dict[str, float], profile: dict[str, float], total: float) -> str:
    rows = []
    for stage, title in TITLES.items():
        how = "timed alone" if stage in (TLS, READ, WRITE) else "the rest" if stage == LOOP else "by difference"
        part = spread(stages[stage]).median / total
        rows.append(
            (
                title, text(spread(stages[stage])), how, f"{part:.0%}",
                f"{timers[stage]:.1f}" if stage in ANSWERING else "", f"{profile.get(stage, 0.0) * total:.1f}",
            )
        )  # fmt: skip
    return table(("stage", "µs", "how", "of the total", "in place, µs", "py-spy, µs"), rows)
