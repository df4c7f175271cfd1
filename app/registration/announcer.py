"""Adding the subject of a new overrider to the webhook configuration before the overrider is stored.

The leader would add it some milliseconds afterwards, and after a crash not before the next leader is elected. A
workload that is created in between would not be sent, and would be rolled once more when the controller finds it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from app.kube.errors import APIError, UnreachableError
from app.registration.condition_client import ConditionClient
from app.registration.selection import SubjectName, bound_condition, covers, listed_subjects

_log: Final = logging.getLogger(__name__)

_CONFLICT: Final = 409
_MAX_TRIES: Final = 5
# Of the five seconds that an apiserver waits for a webhook; reading before has taken up to three.
_MAX_SECONDS: Final = 1.5


class Announcer:
    """Adds subjects; it removes none, which is the leader's part."""

    def __init__(self, client: ConditionClient, subjects: Callable[[], Collection[SubjectName]]) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to.
        """
        self._client: Final = client
        self._subjects: Final = subjects

    async def announce(self, subject: SubjectName) -> None:
        """Have the workloads of a subject sent from now on.

        If that fails, the log has the reason and the leader does it later.
        """
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                for _ in range(_MAX_TRIES):
                    if await self._add(subject):
                        return
            problem = "other replicas change the configuration at the same time"
        except TimeoutError:
            problem = f"no answer within {_MAX_SECONDS} s"
        except (APIError, UnreachableError) as error:
            problem = str(error)
        _log.warning(
            "the subject %s %s/%s of a new overrider was not announced, the leader adds it later: %s",
            subject.kind, subject.namespace, subject.name, problem,
        )  # fmt: skip

    async def _add(self, subject: SubjectName) -> bool:
        """Add a subject unless its workloads are sent already; return whether they are then."""
        registered = await self._client.read()
        expression = registered.expression if registered else None
        # Without the condition, everything is sent.
        if registered is None or expression is None or covers(expression, subject):
            return True
        listed = listed_subjects(expression)
        known = self._subjects() if listed is None else listed
        try:
            await self._client.write(registered, bound_condition({*known, subject}))
        except APIError as error:
            if error.code == _CONFLICT:
                return False
            raise
        return True
