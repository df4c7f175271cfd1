"""Conditions of the status of objects (``metav1.Condition``), events about objects (``core/v1.Event``), and times."""

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError
from fleethook.model.formats.text import escape
from fleethook.model.json import JSON, JSONObject, list_objects

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

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
    stored = {one.get("type"): one for one in list_objects(former)}
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
    return next((one for one in list_objects(former) if one.get("type") == type_), {})


def read_condition(former: JSON, type_: str) -> tuple[JSON, JSON, JSON]:
    """Return status, reason and message of a stored condition; three times None if it is missing."""
    condition = find_condition(former, type_)
    return condition.get("status"), condition.get("reason"), condition.get("message")


_log: Final = logging.getLogger(__name__)

# kube-apiserver refuses an event with a longer message.
_MAX_MESSAGE_LENGTH: Final = 1024
# ``maxLruCacheEntries`` of k8s.io/client-go/tools/record.
_MAX_REMEMBERED: Final = 4096


class ObjectReference(NamedTuple):
    """The ``involvedObject`` of an event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class _Written(NamedTuple):
    name: str
    times: int


class EventRecorder:
    """Writes events. A failed write is logged and not retried, because nothing depends on events.

    A repeated event increases the count of the first one, as in client-go: kube-apiserver keeps events for an hour,
    and ``kubectl describe`` should show each event once.
    """

    def __init__(self, connection: "Connection", *, component: str, now: Callable[[], datetime]) -> None:
        """Prepare; ``component`` is the source of the events."""
        self._connection: Final = connection
        self._component: Final = component
        self._now: Final = now
        self._written: Final[OrderedDict[tuple[object, ...], _Written]] = OrderedDict()

    async def record(
        self, about: ObjectReference, kind: Literal["Normal", "Warning"], reason: str, message: str, *, scope: str = ""
    ) -> None:
        """Write one event; ``scope`` is the path prefix. Control and bidirectional characters are escaped."""
        message = escape(message)
        key = (about, kind, reason, message, scope)
        events = f"{scope}/api/v1/namespaces/{about.namespace or 'default'}/events"
        try:
            written = await self._count(events, self._written.pop(key, None))
            if written is None:
                written = await self._create(events, about, kind, reason, message)
        except (APIError, UnreachableError) as error:
            _log.warning("cannot write event %s about %s %s/%s: %s", reason, *about[1:4], error)
            return
        self._written[key] = written
        if len(self._written) > _MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _count(self, events: str, before: _Written | None) -> _Written | None:
        """Increase the count of an event; return None if a new event has to be created."""
        if before is None:
            return None
        from fleethook.cluster.apiserver_connection import MERGE_PATCH  # noqa: PLC0415 - see fleethook.cluster

        after = before._replace(times=before.times + 1)
        body = {"count": after.times, "lastTimestamp": self._time()}
        try:
            await self._connection.request("PATCH", f"{events}/{before.name}", body=body, content_type=MERGE_PATCH)
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            return None  # The event has expired.
        return after

    async def _create(
        self, events: str, about: ObjectReference, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> _Written:
        name, time = f"{about.name[:200]}.{uuid.uuid4().hex[:16]}", self._time()
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message if len(message) <= _MAX_MESSAGE_LENGTH else message[: _MAX_MESSAGE_LENGTH - 3] + "...",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        await self._connection.request("POST", events, body=body)
        return _Written(name, 1)

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(value: JSON) -> datetime | None:
    """Return a time in UTC, of a text in ISO 8601 or of seconds since the epoch; None for any other value."""
    try:
        time = datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
