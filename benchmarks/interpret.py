"""Measure each operation of `/explore` next to a constant answer, in turn on one machine, and print ratios.

`python benchmarks/interpret.py [--rounds N] [--seconds S]`. As benchmarks/run.py: one pinned core for the server,
another for the load generator, TLS, keep-alive, 16 connections, ratios inside a round.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from run import load, spread, start

OPERATIONS = (
    "ExploreHealthy", "ExploreReplica", "ExploreStatus", "ExploreDependencies", "ExploreReplicaRevising", "ExploreRetaining",
    "ExplorePacking", "ExploreStatusAggregating",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    sys.path.insert(0, str(Path(__file__).parent))
    from reviews import explore_review  # noqa: PLC0415 - its folder is on the path only now

    print(
        "| operation | bytes | requests/s | us CPU/request | p99 ms | time of a constant answer's |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        running = {kind: start([kind], directory, cores[0]) for kind in ("fleethook", "floor")}
        try:
            for operation in OPERATIONS:
                for server in running.values():
                    load(server, operation, 0.5, directory / "ca.crt", cores[-1])
                rounds = [
                    {
                        kind: load(server, operation, given.seconds, directory / "ca.crt", cores[-1])
                        for kind, server in running.items()
                    }
                    for _ in range(given.rounds)
                ]
                ours = {
                    key: statistics.median(made["fleethook"][key] for made in rounds) for key in rounds[0]["fleethook"]
                }
                ratio = spread(
                    [made["floor"]["requests_per_second"] / made["fleethook"]["requests_per_second"] for made in rounds]
                )
                print(
                    f"| {operation} | {len(explore_review(operation)):,} | {ours['requests_per_second']:,.0f} "
                    f"| {ours['cpu_us']:.0f} | {ours['p99_ms']:.2f} | {ratio} |",
                    flush=True,
                )
        finally:
            for server in running.values():
                server.process.terminate()
                server.process.wait()


if __name__ == "__main__":
    main()
