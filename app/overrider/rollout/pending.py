"""Classifies the render that is due on a stored workload: the effect of the next write of its owner or of fleethook."""

from typing import NamedTuple

from app.model.json import JSONObject
from app.overrider.drift import detect_drift
from app.overrider.plan_cache import PlanCache
from app.overrider.rollout.effect import Effect, classify, find_changes, replicas_of
from app.patch import apply
from app.store import StoreView


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
