"""Builds the patch of an instance's status; conditions of other controllers stay."""

from collections.abc import Sequence
from datetime import datetime

from app.control.conditions import Condition, build_conditions
from app.model.json import JSONObject, as_object


def status_patch(
    karmada: JSONObject, findings: Sequence[Condition], *, generation: int, whole: bool, now: datetime
) -> JSONObject | None:
    """Return the merge patch that adds conditions to a status; None if the status has them already.

    Other conditions stay, and ``lastTransitionTime`` changes only with the status. Upstream replaces the list by its
    own conditions at each step, with new times.

    Args:
        karmada: The stored instance.
        findings: The conditions.
        generation: Generation of the spec that the conditions are about.
        whole: Whether to set ``observedGeneration`` too, because no other controller does.
        now: The current time.
    """
    status = as_object(karmada.get("status"))
    former = status.get("conditions")
    ours = {one["type"]: one for one in build_conditions(findings, former=former, generation=generation, now=now)}
    stored = former if isinstance(former, list) else []
    merged = [ours.pop(as_object(one).get("type"), one) for one in stored]
    change: JSONObject = {"conditions": [*merged, *ours.values()]}
    if whole:
        change["observedGeneration"] = generation
    if all(status.get(name) == value for name, value in change.items()):
        return None
    return {"status": change}
