"""Each operation of `/explore` beside a constant answer of the same app."""

from pathlib import Path

from benchmarks.harness.goals import at_most
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.harness.tables import footnotes, mark, table
from benchmarks.servers import EXPLORE
from benchmarks.varied import explore_reviews, size_of, write_lines

MEASURED = ("app/fleethook/server", "app/fleethook/engines/interpret", "app/fleethook/work", "app/fleethook/model")


OPERATIONS = (
    "ExploreHealthy", "ExploreReplica", "ExploreStatus", "ExploreDependencies", "ExploreReplicaRevising", "ExploreRetaining",
    "ExplorePacking", "ExploreStatusAggregating",
)  # fmt: skip
HEALTH = "ExploreHealthy"
OURS, CONSTANT = "fleethook", "constant"
MAX_SECONDS = 1.5

ABOUT = """`/explore` by operation, for a thousand different Deployments of some 5 KB; aggregation covers 100 clusters; 16 keep-alive connections.
The last column divides the time of a request by that of a constant answer, for which the same app decodes the review, answers with its
uid, counts and logs.
"""


def run(context: Context) -> Section:
    """Measure every operation in turn."""
    found: dict[str, list[Round]] = {}
    with run_servers(context, {OURS: ours("fleethook"), CONSTANT: ours("floor")}) as servers:
        for operation in OPERATIONS:
            load = Load(_body(context, operation), options=(f"--path={EXPLORE}", "--expect=interpreter"))
            found[operation] = servers.turns(load, rounds=context.rounds, seconds=min(context.seconds, MAX_SECONDS))
    rows = [
        (
            operation + mark(rounds, OURS), f"{size_of(_path(context, operation)):,.0f}",
            f"{figure(rounds, OURS, 'requests_per_second').median:,.0f}", figure(rounds, OURS, "cpu_us").text(0),
            f"{figure(rounds, OURS, 'p99_ms').median:.2f}", ratio(rounds, "requests_per_second", CONSTANT, OURS).text(),
        )
        for operation, rounds in found.items()
    ]  # fmt: skip
    head = ("operation", "bytes", "requests/s", "µs CPU / request", "p99 ms", "times a constant answer")
    everything = [made for rounds in found.values() for made in rounds]
    health = ratio(found[HEALTH], "requests_per_second", CONSTANT, OURS)
    goals = [at_most("ExploreHealthy (InterpretHealth): time of a constant answer's", 1.25, health)]
    text = "\n\n".join((ABOUT, table(head, rows), footnotes(everything)))
    return Section("Interpreters", text, {"operations": found, "goals": goals})


def _path(context: Context, operation: str) -> Path:
    return context.scratch / f"{operation}.jsonl"


def _body(context: Context, operation: str) -> Path:
    return write_lines(_path(context, operation), explore_reviews(operation))
