"""Each operation of `/explore` beside a constant answer of the same app."""

from pathlib import Path

from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.harness.tables import footnotes, mark, table
from benchmarks.reviews import explore_review
from benchmarks.servers import EXPLORE

OPERATIONS = (
    "ExploreHealthy", "ExploreReplica", "ExploreStatus", "ExploreDependencies", "ExploreReplicaRevising", "ExploreRetaining",
    "ExplorePacking", "ExploreStatusAggregating",
)  # fmt: skip
OURS, CONSTANT = "fleethook", "constant"
MAX_SECONDS = 1.5

ABOUT = """`/explore` by operation, for a Deployment of 5 KB; aggregation covers 100 clusters; 16 keep-alive connections. The last column divides
the time of a request by that of a constant answer, for which the same app decodes the review, answers with its uid, counts and logs.
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
            operation + mark(rounds, OURS), f"{len(explore_review(operation)):,}",
            f"{figure(rounds, OURS, 'requests_per_second').median:,.0f}", figure(rounds, OURS, "cpu_us").text(0),
            f"{figure(rounds, OURS, 'p99_ms').median:.2f}", ratio(rounds, "requests_per_second", CONSTANT, OURS).text(),
        )
        for operation, rounds in found.items()
    ]  # fmt: skip
    head = ("operation", "bytes", "requests/s", "µs CPU / request", "p99 ms", "times a constant answer")
    everything = [made for rounds in found.values() for made in rounds]
    return Section(
        "Interpreters", "\n\n".join((ABOUT, table(head, rows), footnotes(everything))), {"operations": found}
    )


def _body(context: Context, operation: str) -> Path:
    path = context.scratch / f"{operation}.json"
    path.write_bytes(explore_review(operation))
    return path
