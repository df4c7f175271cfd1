"""Keeping the list of the subjects with an overrider up to date in the webhook configuration: the leader's part."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from app.kube.errors import APIError, UnreachableError
from app.registration.announcements import Announcement
from app.registration.condition_client import ConditionClient, Registered
from app.registration.match_conditions import BOUND_CONDITION, SubjectName, bound_condition, covers, listed_subjects

_log: Final = logging.getLogger(__name__)

# Every apiserver compiles the expression again after a change, so many overriders that go at once are one change. The
# first one is written without a pause.
_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0
_CONFLICT: Final = 409
# An apiserver that has admitted an overrider stores it within milliseconds.
_ANNOUNCED_SECONDS: Final = 10.0
# Announcements of overriders that are stored go with the next write. This many are worth a write.
_MAX_SETTLED: Final = 50


async def _nothing(_namespace: str) -> None:
    """Read nothing."""


class ConditionWriter:
    """Writes the condition whenever the subjects or the configuration change."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], Collection[SubjectName]] | None,
        *,
        overriders: Callable[[], Collection[str]] = frozenset,
        refresh: Callable[[str], Awaitable[None]] = _nothing,
        pause_seconds: float = _PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to. None if nobody keeps them up to date: then the
                condition is removed, and all workloads of OpenYurt's subjects are sent.
            overriders: Returns the uids of the overriders that ``subjects`` is made from.
            refresh: Reads the overriders of a namespace from the apiserver, so that ``subjects`` returns them; raises
                APIError, UnreachableError.
            pause_seconds: The least time between two writes.
            clock: Seconds since any point.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._overriders: Final = overriders
        self._refresh: Final = refresh
        self._pause_seconds: Final = pause_seconds
        self._clock: Final = clock
        self._bound: frozenset[SubjectName] = frozenset()
        # When this leader found an announcement; those without a uid are listed subjects that it has not known.
        self._found: dict[Announcement, float] = {}
        # Announced overriders that it has seen stored: from then on the store tells about them.
        self._settled: frozenset[Announcement] = frozenset()
        self._changed: Final = asyncio.Event()
        if subjects is not None:
            self._changed.set()

    def wake(self) -> None:
        """Compare again: the subjects or the configuration have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Compare after each `wake`, and at once if there is something to write, until cancelled."""
        failures = 0
        while True:
            await self._wait()
            self._changed.clear()
            try:
                await self.write()
                failures = 0
            except (APIError, UnreachableError) as error:
                self._changed.set()
                # Another replica has announced a subject in between: nothing is wrong.
                failures += not (isinstance(error, APIError) and error.code == _CONFLICT)
                if failures == 1:
                    _log.warning("the condition %s was not written, trying again: %s", BOUND_CONDITION, error)
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, self._pause_seconds * 2 ** min(failures, 10)))

    async def _wait(self) -> None:
        """Wait for `wake`, no longer than until a subject that was announced may have to go."""
        ends = [at for at in map(self._end, self._found.values()) if at > self._clock()]
        try:
            async with asyncio.timeout(min(ends) - self._clock() if ends else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def write(self) -> bool:
        """Write the condition where it differs; return whether it did. Raises APIError, UnreachableError."""
        registered = await self._client.read()
        if registered is None:
            return False
        if self._subjects is None:
            return await self._withdraw(registered)
        bound = frozenset(self._subjects())
        self._note(registered, bound)
        if overdue := self._overdue(registered, bound):
            # The watch of the overriders may be late; nothing is taken out on its word alone.
            for namespace in sorted({subject.namespace for subject in overdue}):
                await self._refresh(namespace)
            bound = frozenset(self._subjects())
            overdue -= bound
        announced = [one for one, at in self._found.items() if self._end(at) > self._clock()]
        wanted = bound_condition(bound.union(one.subject for one in announced))
        self._bound = bound
        left = [one for one in registered.announcements if one in announced]
        many = len(registered.announcements) - len(left) > _MAX_SETTLED
        if not overdue and not many and all(condition == wanted for condition in registered.conditions.values()):
            return False
        await self._client.write(registered, wanted, announcements=left)
        self._log_write(len(wanted["expression"]))
        return True

    async def _withdraw(self, registered: Registered) -> bool:
        if not registered.announcements and not any(registered.conditions.values()):
            return False
        await self._client.write(registered, None)
        self._log_write(0)
        return True

    def _log_write(self, length: int) -> None:
        _log.info("the condition %s was written", BOUND_CONDITION, extra={"fields": {"expressionLength": length}})

    def _note(self, registered: Registered, bound: frozenset[SubjectName]) -> None:
        """Remember when the subjects were found that replicas have added for overriders which are about to be stored.

        A subject of an overrider that this leader has known and that is gone is none of them.
        """
        listed = (listed_subjects(registered.expression) if registered.expression else None) or frozenset()
        announced = registered.announcements
        stored = frozenset(self._overriders()) if announced else frozenset()
        self._settled = frozenset(one for one in announced if one in self._settled or one.overrider in stored)
        known = bound.union(self._bound, (one.subject for one in announced))
        unknown = [Announcement(subject, "") for subject in sorted(listed - known)]
        now = self._clock()
        found = [*(one for one in announced if one not in self._settled), *unknown]
        self._found = {one: self._found.get(one, now) for one in found}

    def _overdue(self, registered: Registered, bound: frozenset[SubjectName]) -> set[SubjectName]:
        """Return the announced subjects that would be taken out now because no overrider has come."""
        over = {one.subject for one, at in self._found.items() if self._end(at) <= self._clock()}
        expression = registered.expression
        return {one for one in over - bound if expression is None or covers(expression, one)}

    def _end(self, found: float) -> float:
        """Return until when an announced subject is kept without an overrider."""
        return found + _ANNOUNCED_SECONDS
