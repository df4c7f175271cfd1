"""Measure our speed in less than two minutes and print three lines: `make bench-quick`. Needs no Go.

UPDATE reviews over 16 connections, one core for the server: ours beside the same app with a constant verdict (the floor)
and beside an ordinary FastAPI webhook. Ratios are taken within a round, so they are meaningful on a busy machine, too.
"""

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.harness.load import PYTHON_GENERATOR, Load
from benchmarks.harness.rounds import figure, ratio
from benchmarks.harness.section import Context
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.run import MADE
from benchmarks.varied import reviews, write_lines

SERVERS = {"fleethook": ours("fleethook"), "floor": ours("floor"), "FastAPI": ours("ordinary")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    built = MADE / "bin" / "load"
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        bodies = write_lines(scratch / "UPDATE.jsonl", reviews("UPDATE"))
        context = Context(
            binaries=built.parent, python=Path(), inputs=scratch, scratch=scratch, rounds=given.rounds,
            seconds=given.seconds, server_core=cores[0], load_core=cores[-1],
        )  # fmt: skip
        with run_servers(context, SERVERS, command=(built,) if built.exists() else PYTHON_GENERATOR) as servers:
            rounds = servers.turns(Load(bodies), rounds=given.rounds, seconds=given.seconds)
    asked = figure(rounds, "fleethook", "requests_per_second").median
    print(f"UPDATE: {asked:,.0f} requests/s, {figure(rounds, 'fleethook', 'cpu_us').median:.0f} µs CPU each")
    print(f"of the floor: {ratio(rounds, 'requests_per_second', 'fleethook', 'floor').text()}")
    print(
        f"of FastAPI + pydantic + make_patch: {ratio(rounds, 'requests_per_second', 'fleethook', 'FastAPI').text(1)} x"
    )


if __name__ == "__main__":
    main()
