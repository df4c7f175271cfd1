"""The webhook: one review after the other over 16 connections that stay, ours beside its peers, one core each."""

import subprocess
import sys
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, go, kopf, ours, run_servers
from benchmarks.harness.tables import bullets, servers_table

OURS = "fleethook"
FLOOR = "floor: the same app, a constant verdict"
ECHO = "constant bytes: the same app"
CONTROLLER_RUNTIME = "Go, controller-runtime"
LEAN = "Go, hand-tuned"
GO_ECHO = "Go, constant bytes"
ORDINARY = "FastAPI + pydantic + make_patch"

HOW = (
    "16 connections that stay, TLS 1.3 with an ECDSA P-256 certificate, every answer looked at. Before anything is measured, "
    "every peer is shown to make of both reviews what ours makes of them (`benchmarks/peers/check.py`). What each decodes and "
    "validates:"
)

FAIRNESS = {
    OURS: "decodes the envelope into a type and the object as plain JSON, leaves `oldObject` text; validates the types of the "
    "envelope. Looks overriders up (10 in the store), renders, remembers in two annotations how to undo it; metrics with "
    "exemplars, a log line, limits. Nobody else looks up, renders or remembers: their overrides are in the code.",
    FLOOR: "decodes and validates the envelope as ours does, counts and logs; the object stays text.",
    ECHO: "reads the body and decodes nothing: what HTTP and TLS cost. Neither counts nor logs.",
    CONTROLLER_RUNTIME: "decodes the whole object into types and so validates the types of all its members; marshals it and "
    "takes the difference of two texts. Its own metrics and limit, a log line by zap.",
    LEAN: "decodes of the object only what it touches, validates the types of that, skips the rest, `oldObject` too; operations "
    "written as text. Metrics, a log line by slog, the limit. With `GOGC=400` it takes more memory; with `jsonv2` it is the same "
    "source and Go's experimental decoder.",
    GO_ECHO: "reads the body and decodes nothing: what HTTP and TLS cost in Go. Neither counts nor logs.",
    ORDINARY: "decodes the body into models of what it touches, in `oldObject` too, and validates the types of that; others are "
    "kept as they are. Neither counts nor logs nor limits.",
    "kopf": "its admission server and the way to its handlers, no operator around it; decodes all as plain JSON, validates no types. "
    "A log line, no metrics; the limit of aiohttp.",
}


def rows(context: Context) -> dict[str, Server]:
    return {
        OURS: ours("fleethook"),
        FLOOR: ours("floor"),
        ECHO: ours("echo"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
        LEAN: go(context, "lean"),
        f"{LEAN}, GOGC=400": go(context, "lean", "--gogc=400"),
        f"{LEAN}, jsonv2": go(context, "lean-jsonv2"),
        GO_ECHO: go(context, "lean", path="/null"),
        ORDINARY: ours("ordinary"),
        "kopf": kopf(context),
    }


def gate(context: Context) -> str:
    """Have every peer make of a review what ours makes of it; raises CalledProcessError where one does not."""
    command = [sys.executable, "-m", "benchmarks.peers.check", "--bin", context.binaries, "--kopf", context.python]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def goals(rounds: list[Round]) -> list[dict[str, object]]:
    def times(other: str, key: str = "requests_per_second"):
        return ratio(rounds, key, OURS, other)

    slower = ratio(rounds, "p99_ms", CONTROLLER_RUNTIME, OURS)
    return [
        at_least("UPDATE: requests/s of controller-runtime's", 10, times(CONTROLLER_RUNTIME)),
        at_least("UPDATE: requests/s of hand-tuned Go's", 1.5, times(LEAN)),
        at_least("UPDATE: requests/s of FastAPI + pydantic + make_patch's", 20, times(ORDINARY)),
        at_least("UPDATE: requests/s of the floor's", 0.7, times(FLOOR)),
        at_least("UPDATE, saturated: p99 of controller-runtime over ours", 10, slower),
    ]


def run(context: Context) -> Section:
    checked = gate(context).strip().splitlines()
    found: dict[str, list[Round]] = {}
    text = [HOW, bullets(FAIRNESS)]
    with run_servers(context, rows(context)) as servers:
        for operation in ("UPDATE", "CREATE"):
            body = context.inputs / f"{operation}.json"
            found[operation] = servers.turns(Load(body), rounds=context.rounds, seconds=context.seconds)
            text += [f"### {operation}, {body.stat().st_size:,} bytes", servers_table(found[operation], OURS)]
    figures = {"rounds": found, "checked": checked, "goals": goals(found["UPDATE"])}
    return Section("The webhook", "\n\n".join(text), figures, plots(found))


def plots(found: dict[str, list[Round]]) -> tuple[Path, ...]:
    return tuple(
        bars(
            f"webhook-{operation.lower()}",
            f"{operation}: requests per second on one core",
            [Bar(name, figure(rounds, name, "requests_per_second"), ours=name == OURS) for name in rounds[0]],
        )
        for operation, rounds in found.items()
    )
