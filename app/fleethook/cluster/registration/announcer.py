"""Add the subject of a new overrider to the webhook configuration before the overrider is stored.

The leader would add it some milliseconds later, or after a crash when the next leader is elected. kube-apiserver would
not send a workload that is created in between, and the controller would roll it out again later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.condition_client import ConditionClient, Registered
from fleethook.cluster.registration.match_conditions import Announcement, Selection, SubjectName

_log: Final = logging.getLogger(__name__)

# The configuration was deleted or changed after it was read.
_CONFLICTS: Final = (404, 409)
_MAX_TRIES: Final = 5
# A part of the five seconds that kube-apiserver waits for the webhook; earlier reads take up to three.
_MAX_SECONDS: Final = 1.5


async def _skip_waiting(_resource_version: str) -> None:
    """Wait for nothing."""


class Announcer:
    """Adds subjects to the match condition. Only the leader removes subjects."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], Selection],
        *,
        seen: Callable[[str], Awaitable[object]] = _skip_waiting,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to, as far as this replica knows.
            seen: Waits until a watch has received the configuration of a resourceVersion. kube-apiserver informs its
                own webhook client at the same time.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._seen: Final = seen
        # Reviews of one replica take turns, so that only writes of other replicas cause conflicts.
        self._turn: Final = asyncio.Lock()

    async def announce(self, announcement: Announcement, *, fails_open: bool = False) -> None:
        """Make kube-apiserver send the workloads of an overrider's subject from now on.

        After a failure, which is logged, the leader adds the subject later.

        Args:
            announcement: The overrider and its subject.
            fails_open: Whether kube-apiserver admits the workloads if no replica responds.
        """
        end = asyncio.get_running_loop().time() + _MAX_SECONDS
        written: str | None = ""
        try:
            async with asyncio.timeout_at(end), self._turn:
                written = await self._try(announcement, fails_open=fails_open)
            problem = "other replicas keep changing the configuration" if written is None else ""
        except TimeoutError:
            problem = f"no response within {_MAX_SECONDS} s"
        except (APIError, UnreachableError) as error:
            problem = str(error)
        if problem:
            subject = announcement.subject
            _log.warning(
                "cannot announce the subject %s %s/%s of a new overrider, the leader adds it later: %s",
                subject.kind, subject.namespace, subject.name, problem,
            )  # fmt: skip
        elif written:
            await self._wait_until_seen(written, end)

    async def _wait_until_seen(self, resource_version: str, end: float) -> None:
        """Wait for the configuration; a late watch does not fail the request."""
        try:
            async with asyncio.timeout_at(end):
                await self._seen(resource_version)
        except TimeoutError:
            _log.info("the watch has not received the changed webhook configuration in time")

    async def _try(self, announcement: Announcement, *, fails_open: bool) -> str | None:
        """Return the resourceVersion of the write, ``""`` if no write was needed, None if all writes failed."""
        for _ in range(_MAX_TRIES):
            registered = await self._client.read()
            if registered is None:
                return ""
            wanted = self._select(registered, announcement.subject, fails_open=fails_open)
            if announcement in registered.announcements and registered.selects(wanted):
                return ""
            announcements = [*(one for one in registered.announcements if one != announcement), announcement]
            try:
                return await self._client.write(registered, wanted, announcements=announcements)
            except APIError as error:
                if error.code not in _CONFLICTS:
                    raise
        return None

    def _select(self, registered: Registered, subject: SubjectName, *, fails_open: bool) -> Selection:
        """Return the registered selection with a subject whose workloads kube-apiserver always sends."""
        # An installer registers no list; the next leader adds the subjects that this replica does not know.
        selection = self._subjects() if registered.listed is None else registered.listed
        return selection if selection.spills(subject) else selection.move(subject, fails_open=fails_open)
