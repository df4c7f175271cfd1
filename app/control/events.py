"""Events: what a controller tells the people who look at an object (``core/v1.Event``)."""

import logging
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal, NamedTuple

from app.kube.connection import Connection
from app.kube.errors import APIError, UnreachableError

_log: Final = logging.getLogger(__name__)

# An apiserver refuses an event with a longer note.
_LONGEST: Final = 1024


class Reference(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Recorder:
    """Writes events; one that cannot be written is logged and forgotten, as nothing depends on it."""

    def __init__(self, connection: Connection, *, component: str, now: Callable[[], datetime]) -> None:
        """Prepare; ``component`` is whom events are from."""
        self._connection: Final = connection
        self._component: Final = component
        self._now: Final = now

    async def record(
        self, about: Reference, kind: Literal["Normal", "Warning"], reason: str, message: str, *, scope: str = ""
    ) -> None:
        """Write one event; ``scope`` is put before the path."""
        time = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = about.namespace or "default"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
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
        try:
            await self._connection.request("POST", f"{scope}/api/v1/namespaces/{namespace}/events", body=body)
        except (APIError, UnreachableError) as error:
            _log.warning("event %s about %s %s/%s was not written: %s", reason, *about[1:4], error)
