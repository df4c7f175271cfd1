"""Build and read the conditions of an object's status (``metav1.Condition``)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from fleethook.model.formats.text import escape
from fleethook.model.json import JSON, JSONObject, as_object

Status = Literal["True", "False", "Unknown"]


class Condition(NamedTuple):
    """A condition without its times and generation."""

    type: str
    status: Status
    reason: str
    message: str


def build_conditions(new: Iterable[Condition], *, former: JSON, generation: int, now: datetime) -> list[JSONObject]:
    """Return conditions for the API; control and bidirectional characters of messages are escaped.

    Args:
        new: The current conditions.
        former: The stored conditions: ``lastTransitionTime`` changes only with the status.
        generation: The observed generation of the object.
        now: The current time.
    """
    stored = {one.get("type"): one for one in map(as_object, former if isinstance(former, list) else ())}
    made: list[JSONObject] = []
    for condition in new:
        before = stored.get(condition.type, {})
        since = before.get("lastTransitionTime") if before.get("status") == condition.status else None
        made.append(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": escape(condition.message),
                "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "observedGeneration": generation,
            }
        )
    return made


def find_condition(former: JSON, type_: str) -> Mapping[str, JSON]:
    """Return a stored condition; empty if it is missing."""
    found = (one for one in map(as_object, former if isinstance(former, list) else ()) if one.get("type") == type_)
    return next(found, {})


def read_condition(former: JSON, type_: str) -> tuple[JSON, JSON, JSON]:
    """Return status, reason and message of a stored condition; three times None if it is missing."""
    found = find_condition(former, type_)
    return found.get("status"), found.get("reason"), found.get("message")
