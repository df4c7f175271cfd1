"""Measure the server next to its floor and to what people write today, in turn on one machine, and print ratios.

`make bench` or `python benchmarks/run.py [--rounds N] [--seconds S]`. One pinned core for the server, another for the
load generator, TLS, keep-alive, 16 connections. Each round runs every server once; ratios are taken inside a round, so
that a machine that slows down slows all of them, and medians over rounds are printed with their range.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SERVERS = {
    "fleethook": ["fleethook"],
    "fleethook, 100,000 overriders": ["fleethook", "--overriders", "100000"],
    "floor: the same app, a constant verdict": ["floor"],
    "the same app, constant bytes, no review read": ["echo"],
    "FastAPI + pydantic + make_patch": ["ordinary"],
}
OURS, MANY, FLOOR, ECHO, ORDINARY = SERVERS


class Running(NamedTuple):
    process: "subprocess.Popen[str]"
    port: int


def start(arguments: list[str], directory: Path, core: int) -> Running:
    command = [sys.executable, str(HERE / "servers.py"), *arguments, "--cert-dir", str(directory)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}), env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )  # fmt: skip
    assert process.stdout
    line = process.stdout.readline()
    if not line.startswith("serving on "):
        raise SystemExit(f"{arguments} did not start: {line}")
    return Running(process, int(line.split()[-1]))


def load(running: Running, operation: str, seconds: float, authority: Path, core: int) -> dict[str, float]:
    ticks = cpu_seconds(running.process.pid)
    command = [sys.executable, str(HERE / "load.py"), str(running.port), operation, str(seconds), "16", str(authority)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    measured: dict[str, float] = json.loads(result.stdout)
    if measured["errors"]:
        raise SystemExit(f"{measured['errors']} answers were errors")
    measured["cpu_us"] = (cpu_seconds(running.process.pid) - ticks) / measured["requests"] * 1e6
    return measured


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_per_overrider() -> tuple[float, float]:
    """Bytes of resident memory per cached overrider and per cached Deployment (kept narrow), measured by adding 50,000."""
    code = """
import gc, json, sys
sys.path[:0] = [{here!r}, {root!r}]
from reviews import deployment, overrider
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.store import Store
import msgspec
made = {{"overrider": overrider, "deployment": lambda name: {{**deployment(), "metadata": {{**deployment()["metadata"], "name": name}}}}}}[sys.argv[1]]
texts = (msgspec.json.encode(made(f"o-{{n}}")) for n in range(50_000))
store = Store([OVERRIDERS_BY_SUBJECT])
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
gc.collect(); before = rss()
for text in texts: store.put(msgspec.json.decode(text))
gc.collect(); print((rss() - before) / 50_000)
""".format(here=str(HERE), root=str(HERE.parent))
    first, second = (
        float(subprocess.run([sys.executable, "-c", code, kind], capture_output=True, text=True, check=True).stdout)
        for kind in ("overrider", "deployment")
    )
    return first, second


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def table(operation: str, rounds: list[dict[str, dict[str, float]]], size: int) -> str:
    lines = [
        f"### {operation}, {size:,} bytes",
        "",
        "| server | requests/s | µs CPU/request | p50 ms | p99 ms | of the floor | of FastAPI + pydantic |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SERVERS:
        results = [made[name] for made in rounds]
        median = {key: statistics.median(result[key] for result in results) for key in results[0]}
        ratios = [
            spread([made[name]["requests_per_second"] / made[other]["requests_per_second"] for made in rounds])
            for other in (FLOOR, ORDINARY)
        ]
        lines.append(
            f"| {name} | {median['requests_per_second']:,.0f} | {median['cpu_us']:.0f} | {median['p50_ms']:.2f} "
            f"| {median['p99_ms']:.2f} | {ratios[0]} | {ratios[1]} |"
        )
    flat = spread([made[MANY]["requests_per_second"] / made[OURS]["requests_per_second"] for made in rounds])
    busiest = max(result["client_cpu"] for made in rounds for result in made.values())
    return "\n".join(
        [*lines, "", f"100,000 overriders over 10: {flat}. Busiest load generator: {busiest:.0%} of its core.", ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    server_core, load_core = cores[0], cores[-1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    sys.path.insert(0, str(HERE))
    from reviews import review  # noqa: PLC0415 - its folder is on the path only now

    packages = ", ".join(
        f"{name} {version(name)}" for name in ("uvicorn", "uvloop", "msgspec", "fastapi", "pydantic", "jsonpatch")
    )
    print(
        f"Python {platform.python_version()}, {packages}; {given.rounds} rounds of {given.seconds:g} s; median (range).\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        running: dict[str, Any] = {
            server: start(arguments, directory, server_core) for server, arguments in SERVERS.items()
        }
        try:
            for operation in ("UPDATE", "CREATE"):
                rounds = []
                for server in running.values():
                    load(server, operation, 1.0, directory / "ca.crt", load_core)
                for _ in range(given.rounds):
                    rounds.append({
                        server: load(process, operation, given.seconds, directory / "ca.crt", load_core)
                        for server, process in running.items()
                    })  # fmt: skip
                print(table(operation, rounds, len(review(operation))), flush=True)
        finally:
            for process in running.values():
                process.process.terminate()
                process.process.wait()
    overrider_bytes, deployment_bytes = memory_per_overrider()
    print(
        f"Memory per cached object: overrider {overrider_bytes:,.0f} bytes, Deployment (kept narrow) {deployment_bytes:,.0f} bytes."
    )


if __name__ == "__main__":
    main()
