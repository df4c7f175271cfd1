"""The webhook: reviews over 16 keep-alive connections, ours beside its peers, one core each."""

import subprocess
import sys
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.plots import Bar, bars
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, ServerGroup, go, kopf, ours, run_servers
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
    "A thousand different reviews, the same for every server: workloads of 100 subjects with different names, images, replicas and "
    "annotations. 16 keep-alive connections, TLS 1.3 with an ECDSA P-256 certificate; the load generator checks every answer. Before "
    "the measurement, `benchmarks/peers/check.py` checks that every peer changes the reviews as ours does. Work of each server:"
)

FAIRNESS = {
    OURS: "decodes the envelope into a type and the object as plain JSON, leaves `oldObject` as text; validates the types of the "
    "envelope. Decodes and compares a pod template once; the thousand reviews have a hundred of them. Looks up overriders (100 in "
    "the store), renders, and stores in two annotations how to undo it; metrics with "
    "exemplars, a log line, limits. No peer looks up, renders or stores anything: their overrides are in the code.",
    FLOOR: "decodes and validates the envelope as ours does, and the object of an UPDATE to check that its logical cluster does "
    "not change; counts and logs.",
    ECHO: "reads the body and decodes nothing: the cost of HTTP and TLS. Neither counts nor logs.",
    CONTROLLER_RUNTIME: "decodes the complete object into types and so validates the types of all its members; marshals it and "
    "computes the difference of two texts. Its own metrics and limit, a log line by zap.",
    LEAN: "decodes and validates only the members that it changes, and skips the rest and `oldObject`; writes operations as text. "
    "Metrics, a log line by slog, the limit. With `GOGC=400` it takes more memory; `jsonv2` is the same source with Go's "
    "experimental decoder.",
    GO_ECHO: "reads the body and decodes nothing: the cost of HTTP and TLS in Go. Neither counts nor logs.",
    ORDINARY: "decodes the body into models of the members that it changes, also in `oldObject`, and validates their types; keeps "
    "other members unchanged. Neither counts nor logs nor limits.",
    "kopf": "its admission server and its handlers, without an operator; decodes everything as plain JSON, validates no types. "
    "A log line, no metrics; the limit of aiohttp.",
}


ONE, MANY, EDITED = "one review", "a thousand", "a thousand edited"
COMPARED = (OURS, FLOOR, CONTROLLER_RUNTIME, LEAN, JSONV2)
SAME = """### One repeated review

Benchmarks often repeat one review, which hides costs. So each server gets, in turns, one UPDATE review repeatedly and the thousand. Our
server also gets a thousand *edited* ones: with other images than the template of their subject, as after `kubectl set image`. For our
server, other names, replicas and annotations cost nothing, but such images do: a precompiled patch answers for workloads that match their
template, and others are compared with it member by member. Ours restores the template's images in them. The peers know no
template and could not make the same change, so they get no edited reviews."""

BESIDE = """Requests/s of our server relative to the others, by its load. The others get the same load, and the thousand where ours gets edited
ones; they do less there than ours does."""


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


def check_peers(context: Context) -> str:
    """Check that every peer changes the reviews as ours does; raises CalledProcessError if one does not."""
    command = [sys.executable, "-m", "benchmarks.peers.check", "--bin", context.binaries, "--kopf", context.python]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


# Below this ratio, users would notice that each write waits longer for the webhook.
WANTED = 5.5


def goals(rounds: list[Round]) -> list[dict[str, object]]:
    found = ratio(rounds, "requests_per_second", OURS, CONTROLLER_RUNTIME)
    return [at_least("UPDATE: requests/s relative to controller-runtime", WANTED, found)]


def run(context: Context) -> Section:
    checked = check_peers(context).strip().splitlines()
    found: dict[str, list[Round]] = {}
    text = [HOW, bullets(FAIRNESS)]
    with run_servers(context, rows(context)) as servers:
        for operation in ("UPDATE", "CREATE"):
            body = context.reviews(operation)
            found[operation] = servers.turns(Load(body), rounds=context.rounds, seconds=context.seconds)
            text += [f"### {operation}, {size_of(body):,.0f} bytes", servers_table(found[operation], OURS)]
        # Each round sends a server all loads, one directly after the other.
        compared = _compare(context, servers)
    text += [SAME, same_table(compared), BESIDE, ratios_table(compared)]
    figures = {"rounds": found, "one review": compared, "checked": checked, "goals": goals(found["UPDATE"])}
    return Section("The webhook", "\n\n".join(text), figures, plots(found))


def _compare(context: Context, servers: ServerGroup) -> list[Round]:
    """Measure servers with one repeated UPDATE review, with a thousand different ones, and ours with edited ones, in turns."""
    loads = {
        ONE: Load(context.inputs / "UPDATE.json"), MANY: Load(context.reviews("UPDATE")),
        EDITED: Load(context.reviews("UPDATE", edited=True)),
    }  # fmt: skip
    return [
        {
            f"{name}, {title}": servers.ask(loads[title], name, seconds=context.seconds)
            for name in COMPARED
            for title in loads_of(name)
        }
        for _ in range(context.rounds)
    ]


def loads_of(name: str) -> tuple[str, ...]:
    """Return the titles of the loads for a server. Only ours gets edited reviews: no peer restores a template's images."""
    return (ONE, MANY, EDITED) if name == OURS else (ONE, MANY)


def same_table(rounds: list[Round]) -> str:
    """Return the effect of a thousand reviews in place of one."""
    titles = loads_of(OURS)
    lines = []
    for name in COMPARED:
        one, *others = (f"{name}, {title}" for title in loads_of(name))
        costs = [f"{figure(rounds, way, 'cpu_us').median:,.0f}" for way in (one, *others)]
        effects = [ratio(rounds, key, way, one).text() for way in others for key in ("cpu_us", "p99_ms")]
        missing = len(titles) - len(costs)
        lines.append([name, *costs, *[""] * missing, *effects, *[""] * (2 * missing)])
    header = ["server", *(f"µs CPU, {title}" for title in titles)]
    return table([*header, *(f"{key}, {title} : one" for title in titles[1:] for key in ("CPU", "p99"))], lines)


def ratios_table(rounds: list[Round]) -> str:
    """Return the speed of our server relative to the others, by its load."""
    lines = []
    for name in COMPARED[1:]:
        beside = {title: title if title in loads_of(name) else MANY for title in loads_of(OURS)}
        ratios = (
            ratio(rounds, "requests_per_second", f"{OURS}, {title}", f"{name}, {other}")
            for title, other in beside.items()
        )
        lines.append([name, *(found.text() for found in ratios)])
    return table([f"{OURS} : it", *loads_of(OURS)], lines)


def plots(found: dict[str, list[Round]]) -> tuple[Path, ...]:
    return tuple(
        bars(
            f"webhook-{operation.lower()}",
            f"{operation}: requests per second on one core",
            [Bar(name, figure(rounds, name, "requests_per_second"), ours=name == OURS) for name in rounds[0]],
        )
        for operation, rounds in found.items()
    )
