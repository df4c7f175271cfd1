"""The status of an instance, of which some is ours and the rest somebody else's."""

from collections.abc import Sequence
from datetime import datetime

from app.control.conditions import Condition, build_conditions
from app.model.json import JSONObject, as_object


def status_patch(
    karmada: JSONObject, findings: Sequence[Condition], *, generation: int, whole: bool, now: datetime
) -> JSONObject | None:
    """Return the merge patch of a status that says ``findings`` beside what it says already; None if it does.

    Upstream writes a list of its own conditions alone, at each step, and each with a new time of transition.

    Args:
        karmada: The instance as it is stored.
        findings: What is to be said.
        generation: Of the spec that they are about.
        whole: Whether the status is ours, and not only these conditions in it.
        now: The time.
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
