"""Goals with the measured values: member ``goals`` of a part's figures."""

from typing import Any

from benchmarks.harness.rounds import Spread


def at_least(goal: str, wanted: float, found: Spread, *, unit: str = "times", places: int = 2) -> dict[str, Any]:
    """Return a goal that the median must reach."""
    return _goal(goal, f"≥ {wanted:g} {unit}", f"{found.text(places)} {unit}", met=found.median >= wanted)


def at_most(goal: str, wanted: float, found: Spread, *, unit: str = "times", places: int = 2) -> dict[str, Any]:
    """Return a goal that the median must not exceed."""
    return _goal(goal, f"≤ {wanted:g} {unit}", f"{found.text(places)} {unit}", met=found.median <= wanted)


def _goal(goal: str, wanted: str, found: str, *, met: bool) -> dict[str, Any]:
    return {"goal": goal, "wanted": wanted, "found": found, "met": met}
