"""Ten minutes among honest and hostile clients: whether memory stays bounded and honest clients are answered.

    python -m benchmarks.run --only soak [--small]

The server has the limits that follow from the chart's 1 GiB. Small is one minute.
"""

import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_most
from benchmarks.harness.processes import serving
from benchmarks.harness.rounds import spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from fleethook.server.protocol.connections import derive_capacity
from fleethook.settings import Settings

MEMORY_MIB = 1024
GROWTH = 1.2
SECONDS, SMALL_SECONDS = 600, 60
# The first and the last of so many parts of the samples are compared: a minute of ten, ten seconds of one.
PARTS = {False: 10, True: 6}
ABOUT = """{seconds} s of reviews. Meanwhile, hostile clients stall bodies of 8 MiB, never start TLS, send nothing over it, stop in their headers, never read
pipelined answers, send 5,000 requests at once, and send objects that take 27 times their size when decoded. Each kind has its own
address. The server has the limits of a container with 1 GiB: {connections} connections, {bodies} MiB for bodies."""


def run(context: Context) -> Section:
    seconds = SMALL_SECONDS if context.small else SECONDS
    capacity = derive_capacity(Settings(), memory=MEMORY_MIB << 20, open_files=1 << 16)
    found = measure(context, seconds, capacity.connections, capacity.body_bytes)
    count = len(found["samples"]) // PARTS[context.small]
    first, last = statistics.mean(found["samples"][:count]), statistics.mean(found["samples"][-count:])
    figures = {
        "first_mib": first, "last_mib": last, "most_mib": max(found["samples"]), "after_mib": found["after"],
        **{name: found[name] for name in ("counts", "honest_ms", "health_ms")},
    }  # fmt: skip
    refused = sum(count for name, count in found["counts"].items() if is_refusal(name))
    figures["goals"] = [
        at_most("memory at the end, relative to the first minute", GROWTH, spread([last / first])),
        at_most("peak memory", MEMORY_MIB, spread([figures["most_mib"]]), unit="MiB", places=0),
        at_most("honest requests and health checks refused or cut", 0, spread([refused]), unit="", places=0),
    ]
    about = ABOUT.format(seconds=seconds, connections=capacity.connections, bodies=capacity.body_bytes >> 20)
    rows = [[name, f"{value:.0f}"] for name, value in figures.items() if name.endswith("_mib")]
    rows += [[f"{kind} p99, ms", f"{found[f'{kind}_ms']['p99']:.0f}"] for kind in ("honest", "health")]
    rows += [[name, str(times)] for name, times in sorted(found["counts"].items())]
    return Section("Hostile clients for ten minutes", f"{about}\n\n{table(['', ''], rows)}", figures)


def is_refusal(name: str) -> bool:
    """Return whether a count is of an outcome that must not happen to an honest client."""
    kind, _, result = name.partition(": ")
    return kind in ("honest", "health") and result not in ("", "200")


def measure(context: Context, seconds: int, connections: int, bodies: int) -> dict[str, Any]:
    certificates = context.scratch / "certs"
    command = [
        sys.executable,
        "-m",
        "fleethook",
        "serve",
        "--manifests",
        "examples",
        "--port",
        "0",
        "--cert-dir",
        certificates,
    ]
    limits = {
        "FLEETHOOK_MAX_CONNECTIONS": connections,
        "FLEETHOOK_BODY_MEMORY": bodies,
        "FLEETHOOK_LOG_REVIEWS": "false",
    }
    settings = ["env", *(f"{name}={value}" for name, value in limits.items())]
    with serving([*settings, *command], cores=[context.server_core]) as server:
        clients = [
            sys.executable,
            "-m",
            "benchmarks.engines.soak",
            "--seconds",
            str(seconds),
            "--port",
            str(server.port),
        ]
        clients += ["--pid", str(server.process.pid), "--authority", str(certificates / "ca.crt")]
        pinned = ["taskset", "-c", str(context.load_core), *clients]
        done = subprocess.run(pinned, capture_output=True, text=True, cwd=ROOT, timeout=seconds + 120, check=True)
    return json.loads(done.stdout)
