"""The leader of the server, as its Lease names it. No I/O."""

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from app.model.json import JSONObject, as_object

State = Literal["leads", "not renewed", "released", "absent"]


class Leader(NamedTuple):
    """The leader.

    Attributes:
        state: ``leads``; ``not renewed`` for longer than the Lease lasts, so another replica may take over;
            ``released`` by a leader that ended; ``absent`` if there is no Lease.
        holder: The identity of the replica: its host name and a random part, ``""`` without a holder.
        since: When it took the Lease, in UTC; ``""`` if unknown.
        renewed: Seconds since the last renewal by the clock of the console, None if unknown.
        transitions: How often the leader has changed.
    """

    state: State
    holder: str = ""
    since: str = ""
    renewed: float | None = None
    transitions: int = 0


def describe_lease(lease: JSONObject | None, *, now: datetime) -> Leader:
    """Return the leader that a Lease names.

    Args:
        lease: The Lease, None if there is none.
        now: The time by the clock of the console.
    """
    if lease is None:
        return Leader("absent")
    spec = as_object(lease.get("spec"))
    holder = str(spec.get("holderIdentity") or "")
    acquired, renewed = _read_time(spec.get("acquireTime")), _read_time(spec.get("renewTime"))
    age = None if renewed is None else max(0.0, (now - renewed).total_seconds())
    duration, transitions = _read_number(spec.get("leaseDurationSeconds")), _read_number(spec.get("leaseTransitions"))
    state: State = "released" if not holder else "leads" if age is not None and age <= duration else "not renewed"
    return Leader(state, holder, "" if acquired is None else f"{acquired:%Y-%m-%d %H:%M:%S}", age, transitions)


def _read_time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _read_number(value: Any) -> int:
    return value if isinstance(value, int) else 0
