"""Reads the Lease of the server's leader when a page asks for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.model.json import JSONObject, as_object

KEPT_SECONDS: Final = 5.0
"""Time for which an answer of the apiserver is used. A leader renews its Lease every 2 s."""
TIMEOUT_SECONDS: Final = 5.0
# A page does not wait longer for the apiserver, and shows the former answer.
_PATIENCE_SECONDS: Final = 0.2
_NOT_FOUND: Final = 404

Get = Callable[..., Awaitable[Any]]
"""Sends a request to the apiserver as `Connection.json` does."""


class LeaseState(NamedTuple):
    """The last answer of the apiserver.

    Attributes:
        lease: The Lease, None if there is none.
        is_read: Whether the apiserver has answered.
        problem: Why the last attempt failed, ``""`` if it did not.
    """

    lease: JSONObject | None = None
    is_read: bool = False
    problem: str = ""


class LeaseWatch:
    """The Lease of one server."""

    def __init__(self, get: Get, path: str, *, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Store the arguments; the first call of `find` reads the Lease.

        Args:
            get: Asks the apiserver.
            path: The API path of the Lease.
            namespace: Its namespace.
            clock: Returns seconds.
        """
        self.namespace: Final = namespace
        self._get: Final = get
        self._path: Final = path
        self._clock: Final = clock
        self._state = LeaseState()
        self._asked_at = -KEPT_SECONDS
        self._reading: asyncio.Task[None] | None = None

    async def find(self) -> LeaseState:
        """Return the last answer. An old one is replaced in the background, for which the caller waits a moment."""
        if self._reading is None or (self._reading.done() and self._clock() - self._asked_at >= KEPT_SECONDS):
            self._asked_at = self._clock()
            self._reading = asyncio.create_task(self._read(), name="lease of the leader")
        await asyncio.wait([self._reading], timeout=_PATIENCE_SECONDS)
        return self._state

    async def _read(self) -> None:
        try:
            lease = dict(as_object(await self._get("GET", self._path, timeout=TIMEOUT_SECONDS)))
        except APIError as error:
            if error.code == _NOT_FOUND:
                self._state = LeaseState(None, is_read=True)
            else:
                self._state = self._state._replace(problem=error.message)
        except (UnreachableError, ValueError) as error:
            self._state = self._state._replace(problem=str(error))
        else:
            self._state = LeaseState(lease, is_read=True)
