"""Conditions of an object's status (``metav1.Condition``)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from app.model.json import JSON, JSONObject, as_object
from app.model.text import escape

Status = Literal["True", "False", "Unknown"]


class Condition(NamedTuple):
    """What a condition says."""

    type: str
    status: Status
    reason: str
    message: str


def build_conditions(
    findings: Iterable[Condition], *, former: JSON, generation: int, now: datetime
) -> list[JSONObject]:
    """Return the conditions that say ``findings``; control and bidirectional characters of messages are escaped.

    Args:
        findings: What is found now.
        former: The conditions as they are stored: the time of a transition changes with the status only.
        generation: The generation of the object that was looked at.
        now: The time.
    """
    stored = {one.get("type"): one for one in map(as_object, former if isinstance(former, list) else ())}
    made: list[JSONObject] = []
    for finding in findings:
        before = stored.get(finding.type, {})
        since = before.get("lastTransitionTime") if before.get("status") == finding.status else None
        made.append(
            {
                "type": finding.type,
                "status": finding.status,
                "reason": finding.reason,
                "message": escape(finding.message),
                "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "observedGeneration": generation,
            }
        )
    return made


def read_condition(former: JSON, type_: str) -> tuple[JSON, JSON, JSON]:
    """Return status, reason and message of a stored condition; Nones where it is not there."""
    for one in former if isinstance(former, list) else ():
        if isinstance(one, dict) and one.get("type") == type_:
            return one.get("status"), one.get("reason"), one.get("message")
    return None, None, None
