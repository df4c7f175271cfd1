"""Finds the state of one cell of the matrix: the workload of one kind in one node pool of one subject."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.controller.drift import detect_drift
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.effect import Effect, classify, find_changes, replicas_of
from fleethook.engines.overrider.rollout.prediction import count
from fleethook.engines.overrider.rollout.preview import Cell, count_changes
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.json import JSONObject
from fleethook.patch import apply


class Pending(NamedTuple):
    """The effect that is due on a workload.

    Attributes:
        effect: ``unchanged`` if the workload is as its plan.
        error: The reason why the workload cannot be rendered, ``""`` if it can.
    """

    effect: Effect
    error: str = ""


def find_pending(workload: JSONObject, *, kind: str, store: StoreView, plans: PlanCache) -> Pending:
    """Return the effect of rendering a stored workload now.

    Args:
        workload: The complete workload, as the apiserver returns it.
        kind: Deployment or StatefulSet.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    drift = detect_drift(workload, kind=kind, store=store, plans=plans)
    replicas = replicas_of(workload)
    if drift.error:
        return Pending(Effect("error"), drift.error)
    if drift.is_in_sync:
        return Pending(Effect("unchanged", 0, (replicas, replicas)))
    rendered: JSONObject = apply(workload, drift.operations)
    return Pending(classify(kind, workload, rendered, find_changes(workload, rendered)))


State = Literal["error", "rolls", "overridden", "unchanged"]
"""``error``: cannot be rendered. ``rolls``: a running workload differs from its plan, so that its pods would be
replaced. ``overridden``: the overrider changes the template. ``unchanged``: it does not."""

STATES: Final[tuple[State, ...]] = ("error", "rolls", "overridden", "unchanged")
"""The states, the most urgent first."""
LABELS: Final[dict[State, str]] = {
    "error": "error",
    "rolls": "would roll",
    "overridden": "overridden",
    "unchanged": "unchanged",
}


class CellState(NamedTuple):
    """The state of a cell.

    Attributes:
        state: The most urgent state that applies.
        changes: The number of fields that the overrider changes.
        text: The error, or the effect that is due; ``""`` without one.
    """

    state: State
    changes: int = 0
    text: str = ""

    @property
    def label(self) -> str:
        """The state as a reader sees it."""
        return LABELS[self.state]


def find_state(cell: Cell, running: Sequence[JSONObject], *, store: StoreView, plans: PlanCache) -> CellState:
    """Return the state of a cell.

    Args:
        cell: The subject, overrider, node pool and kind.
        running: The complete stored workloads of the cell; usually one, or none.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.
    """
    try:
        changes = count_changes(cell, store, plans)
    except (SubjectError, RenderError) as error:
        return CellState("error", text=str(error))
    texts = []
    for workload in running:
        effect, problem = find_pending(workload, kind=cell.kind, store=store, plans=plans)
        if problem:
            return CellState("error", changes, problem)
        if effect.name == "rolls":
            return CellState("rolls", changes, "; ".join((f"replaces {count(effect.pods, 'pod')}", *effect.notes)))
        if effect.name == "scales":
            texts.append(f"scales from {effect.replicas[0]} to {effect.replicas[1]} replicas")
        elif effect.name != "unchanged":
            texts.append(f"the next write changes its {effect.name}")
    return CellState("overridden" if changes else "unchanged", changes, "; ".join(texts))
