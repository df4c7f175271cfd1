"""The cost of recording: our server with everything on, with and without `--record`, in turns."""

import re
import ssl
import urllib.request

from benchmarks.cases.webhook import OURS
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, ServerGroup, certificate, ours, run_servers
from benchmarks.harness.tables import NOTE, table

MEASURED = (
    "app/fleethook/server",
    "app/fleethook/engines/overrider",
    "app/fleethook/recordings",
    "app/fleethook/model",
    "app/fleethook/cluster/store.py",
)


PLAIN_SPARE = "fleethook, a core more"
ONE_CORE = "recording, one core"
SPARE_CORE = "recording, a core more"
BASES = {ONE_CORE: OURS, SPARE_CORE: PLAIN_SPARE}
"""The server without a recording that has the same cores."""
OPERATIONS = ("UPDATE", "CREATE")
WANTED = 0.95

ABOUT = """The reviews and connections of the part before. Every review is recorded, and no Secret is among them. With one core, event loop and recorder
share it. With a core more, both servers share that one with the load generator. A busy event loop makes the recorder rest and drop reviews."""
_COUNT = re.compile(
    r"^fleethook_(recorded_reviews|record_dropped_reviews|record_bytes)_total(?:\{.*\})? (\S+)$", re.MULTILINE
)


def run(context: Context) -> Section:
    both = (context.server_core, context.load_core)
    rows = {
        OURS: ours("fleethook"),
        ONE_CORE: _recording(context),
        PLAIN_SPARE: ours("fleethook")._replace(cores=both),
        SPARE_CORE: _recording(context)._replace(cores=both),
    }
    found: dict[str, list[Round]] = {}
    with run_servers(context, rows) as servers:
        for operation in OPERATIONS:
            load = Load(context.reviews(operation))
            found[operation] = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
        counts = {name: _read_counts(context, servers, name) for name in (ONE_CORE, SPARE_CORE)}
    goals = [
        at_least(
            f"{operation}, {name}: requests/s of those without",
            WANTED,
            ratio(rounds, "requests_per_second", name, base),
        )
        for operation, rounds in found.items()
        for name, base in BASES.items()
    ]
    text = "\n\n".join((ABOUT, _table(found), _shares(counts), NOTE))
    return Section("Recording", text, {"rounds": found, "counts": counts, "goals": goals})


def _recording(context: Context) -> Server:
    return ours("fleethook", "--record", str(context.scratch / "records"))


def _read_counts(context: Context, servers: ServerGroup, name: str) -> dict[str, float]:
    """Return the counters of a server."""
    secured = ssl.create_default_context(cafile=certificate(context))
    url = f"https://localhost:{servers.running[name].port}/metrics"
    with urllib.request.urlopen(url, context=secured) as answer:
        text = answer.read().decode()
    counts: dict[str, float] = {}
    for member, value in _COUNT.findall(text):
        counts[member] = counts.get(member, 0.0) + float(value)
    return counts


def _table(found: dict[str, list[Round]]) -> str:
    header = ["review", "server", "requests/s", "p50 ms", "p99 ms", "µs CPU / request", "requests/s: it : without"]
    lines = [
        [
            operation, name, f"{figure(rounds, name, 'requests_per_second').median:,.0f}",
            *(f"{figure(rounds, name, key).median:.2f}" for key in ("p50_ms", "p99_ms")),
            f"{figure(rounds, name, 'cpu_us').median:,.0f}",
            ratio(rounds, "requests_per_second", name, BASES[name]).text(3) if name in BASES else "",
        ]
        for operation, rounds in found.items()
        for name in rounds[0]
    ]  # fmt: skip
    return table(header, lines, words=2)


def _shares(counts: dict[str, dict[str, float]]) -> str:
    """Return the share of reviews in the recordings."""
    header = ["server", "recorded", "dropped", "share", "bytes / review"]
    lines = []
    for name, one in counts.items():
        recorded, dropped = one["recorded_reviews"], one["record_dropped_reviews"]
        size = one["record_bytes"] / max(recorded, 1)
        lines.append(
            [name, f"{recorded:,.0f}", f"{dropped:,.0f}", f"{recorded / (recorded + dropped):.0%}", f"{size:,.0f}"]
        )
    return table(header, lines)
