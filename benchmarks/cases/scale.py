"""A fleet of 1,000 to 100,000 workloads in process: memory and CPU of a replica and of the leader, and review latency."""

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.harness.goals import at_most
from benchmarks.harness.processes import output_within
from benchmarks.harness.rounds import Spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

MEASURED = (
    "app/fleethook/server",
    "app/fleethook/work",
    "app/fleethook/engines/overrider",
    "app/fleethook/model",
    "app/fleethook/cluster/store.py",
)


Shape = tuple[int, int, int]
"""Subjects, pools of each, and how many overriders are edited."""


class Extent(NamedTuple):
    """How much is measured."""

    shapes: dict[str, Shape]
    cold: tuple[int, int]
    """Subjects and pools of the fleet whose leader starts without compiled plans."""
    checked: tuple[int, ...]
    """Node pools of the subjects of the overriders that are checked."""
    idle_seconds: int
    program_seconds: float
    """For one program. A program that takes longer is stopped, and its remaining stages are missing."""
    budget_seconds: float
    """For all programs."""


WHOLE = Extent(
    {"20 x 50": (20, 50, 20), "200 x 50": (200, 50, 100), "1 x 5,000": (1, 5000, 1), "2,000 x 50": (2000, 50, 100)},
    (200, 50), (1000, 5000), 10, 600, 1000,
)  # fmt: skip
SMALL = Extent({"4 x 50": (4, 50, 4), "12 x 50": (12, 50, 12), "40 x 50": (40, 50, 20), "1 x 500": (1, 500, 1)}, (20, 50), (300,), 3, 60, 240)  # fmt: skip

TITLE = "A fleet of 100,000 workloads, in process"
ABOUT = """YurtAppSets of the benchmark's own template (6 KB), each with an overrider of two entries. Every pool has a rendered Deployment
of 13 KB. Each shape runs in its own process. A program that makes objects on request replaces the apiserver, so no cluster runs.
*Serving* is a replica with the plans of all pools. The leader is the same process with the controller. *First pass* reads every workload twice
(list, comparison) and writes every status. *Takeover* does the same with the statuses present; small fleets repeat it, and the CPU is that of
the last one. *Edit* changes overriders of 5,000 workloads (of 1,000 in the smallest fleet) and touches them at 200 a second. CPU is that of the
process, with {reviews} reviews a second; the goal for a first pass without plans is measured in a process of its own, without reviews."""
REVIEWS = """Reviews of an UPDATE are sent at fixed times ({reviews} a second), independent of earlier answers. *Slice* is the CPU used between
two turns of the event loop, which is the time that all other tasks of the process wait. Each cell has the p99 of reviews, the p99 of slices and
the longest slice:"""
CHECKS = """Check of an overrider at admission. The slice is the longest one; *without decoding* is the longest one if the time to decode the objects of the
review is taken out of each slice:"""
EXPONENTS = "Exponents over the three fleets of 50 pools (slope of the logarithms, 1 is linear): {text}."


WAITS = ("p99_ms", "slice_p99_ms", "slice_max_ms")
STAGES = ("idle", "first pass", "takeover", "edit")
_MISSING = "-"


class Programs:
    """Runs programs one after the other within a time for all of them."""

    def __init__(self, context: Context, *, program: float, budget: float) -> None:
        self._longest = program
        self._cores = sorted({context.server_core, context.load_core})
        self._end = time.monotonic() + budget
        self.unfinished: list[str] = []

    def run(self, module: str, *arguments: object) -> list[dict[str, Any]]:
        """Return the lines of JSON that a program prints before it ends or is stopped."""
        text = " ".join(map(str, (module, *arguments)))
        print(f"  {text}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"benchmarks.engines.{module}", *map(str, arguments)]
        seconds = max(1.0, min(self._longest, self._end - time.monotonic()))
        printed, ended = output_within(command, cores=self._cores, seconds=seconds)
        if not ended:
            self.unfinished.append(text)
        whole = printed.splitlines() if ended else printed.splitlines(keepends=True)
        return [json.loads(line) for line in whole if ended or line.endswith("\n")]


def run(context: Context) -> Section:
    """Run each shape once, in its own process: further rounds would differ only by the machine's load."""
    extent = SMALL if context.small else WHOLE
    programs = Programs(context, program=extent.program_seconds, budget=extent.budget_seconds)
    checks = [one for pools in extent.checked for one in programs.run("scale_checks", pools)]
    cold = programs.run("scale_server", *extent.cold, "--leader-first")
    found: dict[str, dict[str, Any]] = {}
    for title, (subjects, pools, edits) in extent.shapes.items():
        given = (subjects, pools, "--edits", edits, "--seconds", extent.idle_seconds)
        found[title] = {one["stage"]: one for one in programs.run("scale_server", *given)}
    figures = {
        "shapes": found, "cold": cold[-1] if len(cold) > 1 else {}, "checks": checks, "unfinished": programs.unfinished,
    }  # fmt: skip
    exponents = _exponents(found, extent)
    text = _text(figures, extent, exponents)
    return Section(TITLE, text, figures | {"exponents": exponents, "goals": _goals(figures, extent)})


def _workloads(shape: Sequence[int]) -> int:
    return shape[0] * shape[1]


def _cell(of: dict[str, Any], stage: str, member: str, places: int) -> str:
    return f"{of[stage][member]:,.{places}f}" if stage in of else _MISSING


def _text(figures: dict[str, Any], extent: Extent, exponents: dict[str, float]) -> str:
    found = figures["shapes"]
    columns = (
        ("s to ready", "ready", "seconds", 1), ("CPU s to ready", "ready", "cpu", 2), ("of all plans", "serving", "cpu", 2),
        ("of first pass", "first pass", "cpu", 2), ("of takeover", "takeover", "cpu", 2), ("of edit", "edit", "cpu", 2),
        ("MiB ready", "ready", "mib", 0), ("serving", "serving", "mib", 0), ("leader", "takeover", "mib", 0),
        ("leader, third time", "edit", "mib", 0),
    )  # fmt: skip
    resources = [
        [title, f"{_workloads(extent.shapes[title]):,}", *(_cell(of, *where) for _, *where in columns)]
        for title, of in found.items()
    ]
    waits = [
        [title, *(" / ".join(_cell(of, stage, member, 1) for member in WAITS) for stage in STAGES)]
        for title, of in found.items()
    ]
    checked = [
        [one["check"], f"{one['pools']:,}", f"{one['ms_per_pool']:.3f}", f"{one['slice_ms']:.1f}", f"{one['undecoded_ms']:.1f}", f"{one['body_ms']:.1f}"]
        for one in figures["checks"]
    ]  # fmt: skip
    text = ", ".join(f"{name} {value:.2f}" for name, value in exponents.items()) or "too few fleets were measured"
    parts = [
        ABOUT.format(reviews=200), table(["subjects x pools", "workloads", *(one[0] for one in columns)], resources),
        EXPONENTS.format(text=text), REVIEWS.format(reviews=200),
        table(["ms: p99 of a review / p99 of a slice / longest slice", *STAGES], waits), CHECKS,
        table(["check", "pools", "ms CPU per pool", "longest slice, ms CPU", "without decoding", "decoding, ms"], checked),
    ]  # fmt: skip
    if figures["unfinished"]:
        parts.append(f"Stopped by the time limit: {'; '.join(figures['unfinished'])}.")
    return "\n\n".join(parts)


def _exponents(found: dict[str, Any], extent: Extent) -> dict[str, float]:
    fleets = [title for title, shape in extent.shapes.items() if shape[1] == 50]
    measured = {
        "time to ready": ("ready", "seconds"), "CPU to ready": ("ready", "cpu"), "CPU of all plans": ("serving", "cpu"),
        "CPU of the first pass": ("first pass", "cpu"), "CPU of a takeover": ("takeover", "cpu"),
        "memory of a replica": ("serving", "mib"), "memory of the leader": ("takeover", "mib"),
    }  # fmt: skip
    empty = min((found[title]["ready"]["empty_mib"] for title in fleets if "ready" in found[title]), default=0.0)
    exponents: dict[str, float] = {}
    for name, (stage, member) in measured.items():
        less = empty if member == "mib" else 0.0
        points = [
            (float(_workloads(extent.shapes[title])), found[title][stage][member] - less)
            for title in fleets
            if stage in found[title]
        ]
        if len(points) > 1 and all(value > 0 for _, value in points):
            exponents[name] = _slope(points)
    return exponents


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the logarithms, by least squares."""
    logarithms = [(math.log(size), math.log(value)) for size, value in points]
    mean_x, mean_y = (sum(axis) / len(logarithms) for axis in zip(*logarithms, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logarithms) / sum((x - mean_x) ** 2 for x, _ in logarithms)


def _goals(figures: dict[str, Any], extent: Extent) -> list[dict[str, Any]]:
    fleets = [title for title, shape in extent.shapes.items() if shape[1] == 50]
    largest = max(fleets, key=lambda title: _workloads(extent.shapes[title]))
    count, most = _workloads(extent.shapes[largest]), figures["shapes"][largest]
    cold, checks = _workloads(extent.cold), figures["checks"]
    plain = [one for one in checks if "each" not in one["check"]]
    led = [most[stage]["mib"] for stage in ("first pass", "takeover", "edit") if stage in most]
    slices = [of[stage]["slice_max_ms"] for of in figures["shapes"].values() for stage in STAGES if stage in of]
    first = {"first pass": figures["cold"]} if figures["cold"] else {}
    goals = [
        _goal(f"memory of the leader with {count:,} workloads", 1024, led, "MiB", 0),
        _goal(f"memory of a serving replica with {count:,} workloads", 1024, _values(most, "serving", "mib"), "MiB", 0),
        _goal(
            f"leader's first pass over {cold:,} workloads, no plan compiled", 4 * cold / 10_000,
            _values(first, "first pass", "cpu"), "s CPU", 2,
        ),
        _goal("check of an overrider or an edit, per pool", 0.2, [one["ms_per_pool"] for one in plain], "ms", 3),
        _goal("check of an overrider with an entry for each pool, per pool", 0.2, [one["ms_per_pool"] for one in checks], "ms", 3),
        _goal(
            "longest slice of such a check, without decoding its body", 10, [one["undecoded_ms"] for one in checks],
            "ms", 1,
        ),
        _goal("longest slice of a leader or an idle replica", 50, slices, "ms CPU", 1),
    ]  # fmt: skip
    for stage in ("takeover", "edit"):
        measured = [of for of in figures["shapes"].values() if stage in of]
        ratios = [of[stage]["p99_ms"] / of["idle"]["p99_ms"] for of in measured]
        goals.append(_goal(f"p99 of a review during {stage}, relative to the idle p99", 2, ratios, "times", 2))
    return goals


def _values(of: dict[str, Any], stage: str, member: str) -> list[float]:
    return [of[stage][member]] if stage in of else []


def _goal(goal: str, wanted: float, values: Sequence[float], unit: str, places: int) -> dict[str, Any]:
    """Return a goal that the largest value must not pass; one that was not measured is missed."""
    if not values:
        return {"goal": goal, "wanted": f"≤ {wanted:g} {unit}", "found": "not measured", "met": False}
    return at_most(goal, wanted, Spread(max(values), min(values), max(values)), unit=unit, places=places)
