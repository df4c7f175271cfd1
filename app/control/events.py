"""Events: what a controller tells the people who look at an object (``core/v1.Event``)."""

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal, NamedTuple

from app.kube.connection import MERGE_PATCH, Connection
from app.kube.errors import APIError, UnreachableError
from app.model.text import escape

_log: Final = logging.getLogger(__name__)

# An apiserver refuses an event with a longer note.
_LONGEST: Final = 1024
# client-go remembers as many.
_MOST_REMEMBERED: Final = 4096
# It has expired; or we may only create, by rules of an earlier release: then each is an event of its own.
_NOT_THERE: Final = (404, 403)


class Reference(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class _Written(NamedTuple):
    name: str
    times: int


class Recorder:
    """Writes events; one that cannot be written is logged and forgotten, as nothing depends on it.

    What is said again is counted in the event that said it first, as client-go does it: an apiserver keeps events for
    an hour, and whoever looks at an object wants to see each thing once.
    """

    def __init__(self, connection: Connection, *, component: str, now: Callable[[], datetime]) -> None:
        """Prepare; ``component`` is whom events are from."""
        self._connection: Final = connection
        self._component: Final = component
        self._now: Final = now
        self._written: Final[OrderedDict[tuple[object, ...], _Written]] = OrderedDict()

    async def record(
        self, about: Reference, kind: Literal["Normal", "Warning"], reason: str, message: str, *, scope: str = ""
    ) -> None:
        """Write one event; ``scope`` is put before the path. Control and bidirectional characters are escaped."""
        message = escape(message)
        key = (about, kind, reason, message, scope)
        events = f"{scope}/api/v1/namespaces/{about.namespace or 'default'}/events"
        try:
            written = await self._counted(events, self._written.pop(key, None))
            if written is None:
                written = await self._created(events, about, kind, reason, message)
        except (APIError, UnreachableError) as error:
            _log.warning("event %s about %s %s/%s was not written: %s", reason, *about[1:4], error)
            return
        self._written[key] = written
        if len(self._written) > _MOST_REMEMBERED:
            self._written.popitem(last=False)

    async def _counted(self, events: str, before: _Written | None) -> _Written | None:
        """Count an event once more; None if there is none to be counted."""
        if before is None:
            return None
        after = before._replace(times=before.times + 1)
        body = {"count": after.times, "lastTimestamp": self._time()}
        try:
            await self._connection.request("PATCH", f"{events}/{before.name}", body=body, content_type=MERGE_PATCH)
        except APIError as error:
            if error.code in _NOT_THERE:
                return None
            raise
        return after

    async def _created(
        self, events: str, about: Reference, kind: Literal["Normal", "Warning"], reason: str, message: str
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
            "message": message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "...",
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
