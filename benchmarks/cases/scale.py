"""A fleet from 1,000 to 100,000 workloads in process: memory and CPU of a replica and of the leader, and who waits."""

import math
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.engines.measure import lines
from benchmarks.harness.goals import at_most
from benchmarks.harness.processes import output
from benchmarks.harness.rounds import Spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

SHAPES = {
    "20 x 50": (20, 50, 20), "200 x 50": (200, 50, 100), "2,000 x 50": (2000, 50, 100), "1 x 5,000": (1, 5000, 1),
}  # fmt: skip
"""Subjects and pools of each, and how many overriders are edited."""
CHECKED = (1000, 5000)

TITLE = "A fleet of 100,000 workloads, in process"
ABOUT = """YurtAppSets of the benchmark's own template (6 KB), each with an overrider of two entries; every pool has a rendered Deployment
of 13 KB. Each shape has a process of its own; the apiserver is a program that makes the objects when they are asked for, so no cluster runs.
*Serving* is a replica with the plans of all pools. The leader is the same process with the controller: *first pass* reads every workload twice
(list, comparison) and writes every status, *takeover* does the same with the statuses there, *edit* changes overriders of 5,000 workloads (of
1,000 in the smallest fleet) and touches them at 200 a second. CPU is that of the process, with {reviews} reviews a second."""
REVIEWS = """Reviews of an UPDATE, asked for at fixed times ({reviews} a second) whatever became of the one before; *slice* is the CPU that is used
between two turns of the event loop, so the time that this process has any of them wait:"""
CHECKS = """A check of an overrider at admission; the slice is the longest, decoding the review's own body included:"""
EXPONENTS = "Exponents over the three fleets of 50 pools (slope of the logarithms, 1 is linear): {text}."


def run(context: Context) -> Section:
    """Run each shape in a process of its own; what a round would repeat differs by the machine's load alone."""
    engine = [sys.executable, "-m", "benchmarks.engines.scale_server"]
    cores = sorted({context.server_core, context.load_core})
    found: dict[str, dict[str, Any]] = {}
    for title, (subjects, pools, edits) in SHAPES.items():
        command = [*engine, str(subjects), str(pools), "--edits", str(edits), "--seconds", "10"]
        found[title] = {one["stage"]: one for one in lines(output(command, cores=cores))}
    cold = lines(output([*engine, "200", "50", "--leader-first"], cores=cores))[-1]
    checks = [
        one
        for pools in CHECKED
        for one in lines(output([sys.executable, "-m", "benchmarks.engines.scale_checks", str(pools)], cores=cores))
    ]
    figures = {"shapes": found, "cold": cold, "checks": checks}
    exponents = _exponents(found)
    return Section(TITLE, _text(found, checks, exponents), figures | {"exponents": exponents, "goals": _goals(figures)})


def _workloads(title: str) -> int:
    subjects, pools, _ = SHAPES[title]
    return subjects * pools


def _text(found: dict[str, Any], checks: Sequence[dict[str, Any]], exponents: dict[str, float]) -> str:
    resources = [
        [
            title, f"{_workloads(title):,}", f"{of['ready']['cpu']:.2f}", f"{of['serving']['cpu']:.2f}", f"{of['first pass']['cpu']:.2f}",
            f"{of['takeover']['cpu']:.2f}", f"{of['edit']['cpu']:.2f}", f"{of['ready']['mib']:.0f}", f"{of['serving']['mib']:.0f}",
            f"{of['edit']['mib']:.0f}",
        ]
        for title, of in found.items()
    ]  # fmt: skip
    header = ["subjects x pools", "workloads", "CPU s to ready", "of all plans", "of first pass", "of takeover", "of edit",
              "MiB ready", "serving", "leader"]  # fmt: skip
    stages = ("idle", "first pass", "takeover", "edit")
    waits = [
        [title, *(f"{of[stage]['p99_ms']:.1f} / {of[stage]['slice_p99_ms']:.1f}" for stage in stages)]
        for title, of in found.items()
    ]
    checked = [
        [
            one["check"],
            f"{one['pools']:,}",
            f"{one['ms_per_pool']:.3f}",
            f"{one['slice_ms']:.1f}",
            f"{one['body_ms']:.1f}",
        ]
        for one in checks
    ]
    about = ABOUT.format(reviews=200)
    text = ", ".join(f"{name} {value:.2f}" for name, value in exponents.items())
    return "\n\n".join((
        about, table(header, resources), EXPONENTS.format(text=text), REVIEWS.format(reviews=200),
        table(["p99 ms of a review / of a slice", *stages], waits), CHECKS,
        table(["check", "pools", "ms CPU per pool", "longest slice, ms CPU", "body, ms"], checked),
    ))  # fmt: skip


def _exponents(found: dict[str, Any]) -> dict[str, float]:
    fleets = [title for title in SHAPES if SHAPES[title][1] == 50]
    sizes = [_workloads(title) for title in fleets]
    empty = min(found[title]["ready"]["empty_mib"] for title in fleets)
    measured = {
        "CPU to ready": [found[title]["ready"]["cpu"] for title in fleets],
        "CPU of all plans": [found[title]["serving"]["cpu"] for title in fleets],
        "CPU of the first pass": [found[title]["first pass"]["cpu"] for title in fleets],
        "CPU of a takeover": [found[title]["takeover"]["cpu"] for title in fleets],
        "memory of a replica": [found[title]["serving"]["mib"] - empty for title in fleets],
        "memory of the leader": [found[title]["takeover"]["mib"] - empty for title in fleets],
    }
    return {name: _slope(sizes, values) for name, values in measured.items()}


def _slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the logarithms, by least squares."""
    points = [(math.log(size), math.log(value)) for size, value in zip(sizes, values, strict=True)]
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _goals(figures: dict[str, Any]) -> list[dict[str, Any]]:
    found, most = figures["shapes"], figures["shapes"]["2,000 x 50"]
    slowest = max(figures["checks"], key=lambda one: one["ms_per_pool"])
    plain = max((one for one in figures["checks"] if "each" not in one["check"]), key=lambda one: one["ms_per_pool"])
    longest = max(one["slice_ms"] - one["body_ms"] for one in figures["checks"])
    goals = [
        at_most("memory of the leader with 100,000 workloads", 1024, _one(most["edit"]["mib"]), unit="MiB", places=0),
        at_most("memory of a serving replica with 100,000 workloads", 1024, _one(most["serving"]["mib"]), unit="MiB", places=0),
        at_most("leader's first pass over 10,000 workloads, no plan compiled", 4, _one(figures["cold"]["cpu"]), unit="s CPU"),
        at_most("check of an overrider or an edit, per pool", 0.2, _one(plain["ms_per_pool"]), unit="ms", places=3),
        at_most("the same with an entry for each pool", 0.2, _one(slowest["ms_per_pool"]), unit="ms", places=3),
        at_most("longest wait for such a check, its body aside", 10, _one(longest), unit="ms", places=1),
    ]  # fmt: skip
    for stage in ("takeover", "edit"):
        ratios = [of[stage]["p99_ms"] / of["idle"]["p99_ms"] for of in found.values()]
        goals.append(
            at_most(
                f"p99 of a review during {stage}, of the idle p99", 2, Spread(max(ratios), min(ratios), max(ratios))
            )
        )
    return goals


def _one(value: float) -> Spread:
    return Spread(value, value, value)
