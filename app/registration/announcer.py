"""Adding the subject of a new overrider to the webhook configuration before the overrider is stored.

The leader would add it some milliseconds afterwards, and after a crash not before the next leader is elected. A
workload that is created in between would not be sent, and would be rolled once more when the controller finds it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from app.kube.errors import APIError, UnreachableError
from app.registration.announcements import Announcement
from app.registration.condition_client import ConditionClient, Registered
from app.registration.match_conditions import SubjectName, bound_condition, covers, listed_subjects

_log: Final = logging.getLogger(__name__)

_CONFLICT: Final = 409
_MAX_TRIES: Final = 5
# Of the five seconds that an apiserver waits for a webhook; reading before has taken up to three.
_MAX_SECONDS: Final = 1.5


async def _nothing(_resource_version: str) -> None:
    """Wait for nothing."""


class Announcer:
    """Adds subjects; it removes none, which is the leader's part."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], Collection[SubjectName]],
        *,
        selecting: bool = True,
        seen: Callable[[str], Awaitable[object]] = _nothing,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to.
            selecting: Whether a leader writes the condition where there is none.
            seen: Waits until a watch has brought the configuration of a resourceVersion. An apiserver that has sent it
                there sends it to its own webhook client at the same time.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._selecting: Final = selecting
        self._seen: Final = seen
        # Reviews of one replica take turns, so that only other replicas' writes are conflicts.
        self._turn: Final = asyncio.Lock()

    async def announce(self, announcement: Announcement) -> None:
        """Have the workloads of an overrider's subject sent from now on.

        If that fails, the log has the reason and the leader does it later.
        """
        end = asyncio.get_running_loop().time() + _MAX_SECONDS
        written: str | None = ""
        try:
            async with asyncio.timeout_at(end), self._turn:
                written = await self._try(announcement)
            problem = "other replicas change the configuration at the same time" if written is None else ""
        except TimeoutError:
            problem = f"no answer within {_MAX_SECONDS} s"
        except (APIError, UnreachableError) as error:
            problem = str(error)
        if problem:
            subject = announcement.subject
            _log.warning(
                "the subject %s %s/%s of a new overrider was not announced, the leader adds it later: %s",
                subject.kind, subject.namespace, subject.name, problem,
            )  # fmt: skip
        elif written:
            await self._wait_until_seen(written, end)

    async def _wait_until_seen(self, resource_version: str, end: float) -> None:
        """Wait for the configuration; a watch that is late keeps nobody from creating an overrider."""
        try:
            async with asyncio.timeout_at(end):
                await self._seen(resource_version)
        except TimeoutError:
            _log.info("the webhook configuration was changed, and its watch is late")

    async def _try(self, announcement: Announcement) -> str | None:
        """Return the resourceVersion of the write, ``""`` if none was needed, None if none succeeded."""
        for _ in range(_MAX_TRIES):
            registered = await self._client.read()
            if registered is None or not self._has_to_write(registered, announcement):
                return ""
            try:
                return await self._write(registered, announcement)
            except APIError as error:
                if error.code != _CONFLICT:
                    raise
        return None

    def _has_to_write(self, registered: Registered, announcement: Announcement) -> bool:
        if registered.expression is None and not self._selecting:
            return False  # Without the condition, every workload is sent, and that stays so.
        return announcement not in registered.announcements or not _is_sent(registered, announcement.subject)

    async def _write(self, registered: Registered, announcement: Announcement) -> str:
        announcements = [*(one for one in registered.announcements if one != announcement), announcement]
        expression, subject = registered.expression, announcement.subject
        if expression is None or _is_sent(registered, subject):
            return await self._client.write_announcements(registered, announcements)
        listed = listed_subjects(expression)
        known = self._subjects() if listed is None else listed
        return await self._client.write(registered, bound_condition({*known, subject}), announcements=announcements)


def _is_sent(registered: Registered, subject: SubjectName) -> bool:
    """Return whether the workloads of a subject are sent as the webhooks are registered."""
    return registered.expression is None or covers(registered.expression, subject)
