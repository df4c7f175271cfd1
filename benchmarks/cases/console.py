"""The pages of the console for 100,000 workloads in 5,000 node pools, in process."""

import sys
from typing import Any

from benchmarks.cases.scale import Programs
from benchmarks.harness.goals import at_most
from benchmarks.harness.rounds import Spread, spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

MEASURED = ("app/fleethook/console", "app/fleethook/engines/overrider", "app/fleethook/cluster/store.py")


SHAPE, SMALL_SHAPE = (20, 5_000), (4, 50)
PROGRAM_SECONDS, BUDGET_SECONDS = 420, 1_500
MAX_ROUNDS = 3
FIRST_PAGE = "first page"
PAGE_MS, SLICE_MS = 300, 50
ABOUT = """20 YurtAppSets with 5,000 node pools each; every pool has a rendered Deployment. The console reads them from the program of `scale` that
replaces an apiserver, so a page also waits for the complete Deployments that it shows. *First page* is the matrix of a console that has shown nothing
yet. Pages marked *during the scan* compete with the scan of all cells, which the first page starts. A slice is the CPU time of the process between
two turns of its event loop, at least a millisecond apart. Scripts of pages and the time of a browser are not included."""


def run(context: Context) -> Section:
    """Visit all pages in a new process for each round."""
    programs = Programs(context, program=PROGRAM_SECONDS, budget=BUDGET_SECONDS)
    shape = SMALL_SHAPE if context.small else SHAPE
    rounds = [programs.run("console_pages", *shape) for _ in range(min(context.rounds, MAX_ROUNDS))]
    found = _merge(rounds)
    rows = [
        [step, *(one[key].text(places) for key, places in (("ms", 0), ("max_ms", 0), ("slice_ms", 1)))]
        for step, one in found.items()
    ]
    text = [ABOUT, table(["page", "ms", "longest, ms", "longest slice, ms CPU"], rows)]
    if programs.unfinished:
        text.append(f"Stopped by the time limit: {'; '.join(programs.unfinished)}.")
    return Section("Console", "\n\n".join(text), {"pages": found, "goals": _goals(found)})


def _merge(rounds: list[list[dict[str, Any]]]) -> dict[str, dict[str, Spread]]:
    """Return the figures of each step, over the rounds that reached it."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for lines in rounds:
        for line in lines:
            if "ms" in line:
                steps.setdefault(line["step"], []).append(line)
    return {
        step: {key: spread([line[key] for line in lines]) for key in ("ms", "max_ms", "slice_ms")}
        for step, lines in steps.items()
    }


def _goals(found: dict[str, dict[str, Spread]]) -> list[dict[str, Any]]:
    if FIRST_PAGE not in found:
        print("  the console did not answer in time", file=sys.stderr)
        return []
    worst = max((one["slice_ms"] for one in found.values()), key=lambda one: one.median)
    return [
        at_most("first page with 5,000 node pools and 100,000 workloads", PAGE_MS, found[FIRST_PAGE]["ms"], unit="ms", places=0),
        at_most("longest slice of a page or the scan", SLICE_MS, worst, unit="ms CPU", places=1),
    ]  # fmt: skip
