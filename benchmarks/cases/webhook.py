"""The webhook: one review after the other over 16 connections that stay, ours beside its peers, one core each."""

import subprocess
import sys
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.harness.field import Field, Server, field, go, kopf, ours
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import bullets, servers_table, table
from benchmarks.varied import size_of

OURS = "fleethook"
FLOOR = "floor: the same app, a constant verdict"
ECHO = "constant bytes: the same app"
CONTROLLER_RUNTIME = "Go, controller-runtime"
LEAN = "Go, hand-tuned"
JSONV2 = f"{LEAN}, jsonv2"
GO_ECHO = "Go, constant bytes"
ORDINARY = "FastAPI + pydantic + make_patch"

HOW = (
    "A thousand different reviews, the same for all: workloads of 100 subjects with other names, images, replicas and annotations. "
    "16 connections that stay, TLS 1.3 with an ECDSA P-256 certificate, every answer looked at. Before anything is measured, "
    "every peer is shown to make of both reviews what ours makes of them (`benchmarks/peers/check.py`). What each decodes and "
    "validates:"
)

FAIRNESS = {
    OURS: "decodes the envelope into a type and the object as plain JSON, leaves `oldObject` text; validates the types of the "
    "envelope. Looks overriders up (100 in the store), renders, remembers in two annotations how to undo it; metrics with "
    "exemplars, a log line, limits. Nobody else looks up, renders or remembers: their overrides are in the code.",
    FLOOR: "decodes and validates the envelope as ours does, and of an UPDATE the object, to see that it stays in its "
    "logical cluster; counts and logs.",
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


ONE, MANY, EDITED = "one review", "a thousand", "a thousand edited"
COMPARED = (OURS, FLOOR, CONTROLLER_RUNTIME, LEAN, JSONV2)
SAME = """### One review again and again

What one UPDATE review, sent again and again as benchmarks do, hides: each server in turns with that review, with the thousand, and with
the thousand edited: with other images than the template of their subject, as after `kubectl set image`. Names, replicas and annotations
change nothing for ours, but such images do: a precompiled patch answers for workloads that match their template, and others are compared
with it member by member."""


def rows(context: Context) -> dict[str, Server]:
    return {
        OURS: ours("fleethook"),
        FLOOR: ours("floor"),
        ECHO: ours("echo"),
        CONTROLLER_RUNTIME: go(context, "controller-runtime"),
        LEAN: go(context, "lean"),
        f"{LEAN}, GOGC=400": go(context, "lean", "--gogc=400"),
        JSONV2: go(context, "lean-jsonv2"),
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
        at_least("UPDATE: requests/s of hand-tuned Go's", 1.3, times(LEAN)),
        at_least("UPDATE: requests/s of hand-tuned Go's with jsonv2", 0.9, times(JSONV2)),
        at_least("UPDATE: requests/s of the floor's", 0.6, times(FLOOR)),
        at_least("UPDATE, saturated: p99 of controller-runtime over ours", 12, slower),
    ]


def run(context: Context) -> Section:
    checked = gate(context).strip().splitlines()
    found: dict[str, list[Round]] = {}
    text = [HOW, bullets(FAIRNESS)]
    with field(context, rows(context)) as servers:
        for operation in ("UPDATE", "CREATE"):
            body = context.reviews(operation)
            found[operation] = servers.turns(Load(body), rounds=context.rounds, seconds=context.seconds)
            text += [f"### {operation}, {size_of(body):,.0f} bytes", servers_table(found[operation], OURS)]
        # In each round the same server is asked both, one directly after the other.
        compared = _compare(context, servers)
    text += [SAME, same_table(compared)]
    figures = {"rounds": found, "one review": compared, "checked": checked, "goals": goals(found["UPDATE"])}
    return Section("The webhook", "\n\n".join(text), figures, plots(found))


def _compare(context: Context, servers: Field) -> list[Round]:
    """Ask servers for one UPDATE review again and again, and for a thousand different ones, in turns."""
    loads = {
        ONE: Load(context.inputs / "UPDATE.json"), MANY: Load(context.reviews("UPDATE")),
        EDITED: Load(context.reviews("UPDATE", edited=True)),
    }  # fmt: skip
    return [
        {
            f"{name}, {title}": servers.ask(load, name, seconds=context.seconds)
            for name in COMPARED
            for title, load in loads.items()
        }
        for _ in range(context.rounds)
    ]


def same_table(rounds: list[Round]) -> str:
    """Return what a thousand reviews in the place of one change."""
    lines = []
    for name in COMPARED:
        one, *others = (f"{name}, {title}" for title in (ONE, MANY, EDITED))
        costs = (f"{figure(rounds, way, 'cpu_us').median:,.0f}" for way in (one, *others))
        lines.append([
            name, *costs, *(ratio(rounds, key, way, one).text() for way in others for key in ("cpu_us", "p99_ms"))
        ])  # fmt: skip
    header = ["server", *(f"µs CPU, {title}" for title in (ONE, MANY, EDITED))]
    return table([*header, *(f"{key}, {title} : one" for title in (MANY, EDITED) for key in ("CPU", "p99"))], lines)


def plots(found: dict[str, list[Round]]) -> tuple[Path, ...]:
    return tuple(
        bars(
            f"webhook-{operation.lower()}",
            f"{operation}: requests per second on one core",
            [Bar(name, figure(rounds, name, "requests_per_second"), ours=name == OURS) for name in rounds[0]],
        )
        for operation, rounds in found.items()
    )
