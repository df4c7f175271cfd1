"""Measure, and write benchmarks/results.json and benchmarks/RESULTS.md: `make bench`, which is

    python -m benchmarks.run [--only PART ...] [--rounds N] [--seconds S] [--small] --python PYTHON

The server and the load generator have a core each. A part that fails keeps its last result; the others go on.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

from benchmarks.harness import ROOT, results
from benchmarks.harness.build import build_peers, write_inputs
from benchmarks.harness.machine import machine, origin, versions
from benchmarks.harness.section import Context
from benchmarks.harness.tables import table

PARTS = (
    "webhook", "cold", "tracing", "one_connection", "unasked", "handshakes", "overriders", "objects", "stages",
    "lua", "dispatch", "rules", "scale", "console", "cli", "admission", "interpret", "worst", "soak",
)  # fmt: skip
"""Modules of ``benchmarks/cases``, in the order of the page."""

IN_PROCESS = frozenset({"cli", "console", "scale", "soak", "worst"})
"""Parts that measure fleethook alone, so that no peer has to be built for them."""

MADE = ROOT / ".bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement of one server")
    parser.add_argument(
        "--python",
        type=Path,
        default=MADE / "venv" / "bin" / "python",
        help="interpreter with the packages of benchmarks/requirements.txt",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="measure small sizes, print the figures and write no results (admission, cli, cold, console, policies, scale, soak, worst)",
    )
    given = parser.parse_args()
    found = results.read()
    if not (given.small or IN_PROCESS.issuperset(given.only)):
        build_peers(MADE / "bin")
        write_inputs(MADE / "inputs")
        found["about"] = machine() | versions(MADE / "bin", given.python)
    failed = [name for name in PARTS if name in given.only and not measure(name, given, found)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def measure(name: str, given: argparse.Namespace, found: results.Results) -> bool:
    """Measure a part and write all results; return whether the measurement succeeded."""
    cores = sorted(os.sched_getaffinity(0))
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            module = import_module(f"benchmarks.cases.{name}")
            section = module.run(
                Context(
                    binaries=MADE / "bin", python=given.python, inputs=MADE / "inputs", scratch=Path(scratch),
                    rounds=given.rounds, seconds=given.seconds, server_core=cores[0], load_core=cores[-1],
                    small=given.small,
                )
            )  # fmt: skip
    except Exception:  # noqa: BLE001 - the other parts can still be measured
        traceback.print_exc()
        return False
    took = time.monotonic() - began
    print(f"## {section.title}\n\n{section.text}\n", flush=True)
    if goals := section.figures.get("goals"):
        rows = [[one["goal"], one["wanted"], one["found"], "yes" if one["met"] else "**no**"] for one in goals]
        print(f"{table(['goal', 'wanted', 'found', 'met'], rows, words=4)}\n", flush=True)
    print(f"({took:.0f} s)\n", flush=True)
    if given.small:
        return True
    command = f'make bench ARGS="--only {name} --rounds {given.rounds} --seconds {given.seconds:g}"'
    measured = {
        "command": command,
        "rounds": given.rounds,
        "seconds": given.seconds,
        "took": took,
        "paths": getattr(module, "MEASURED", results.MEASURED),
    } | origin()
    results.record(found, name, section, measured)
    results.write(found, PARTS)
    return True


if __name__ == "__main__":
    main()
