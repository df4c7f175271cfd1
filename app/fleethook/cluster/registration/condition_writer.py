"""Keep the match conditions that list the subjects with an overrider up to date.

The leader does this. Without the controller, every replica does: there is no leader then.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.condition_client import ConditionClient, Registered
from fleethook.cluster.registration.match_conditions import BOUND_CONDITION, Announcement, Selection, SubjectName

_log: Final = logging.getLogger(__name__)

# Each apiserver compiles a changed expression, so changes within this time are one write. The first change is written
# at once.
_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0
_CONFLICT: Final = 409
# kube-apiserver stores an admitted overrider within milliseconds.
_ANNOUNCED_SECONDS: Final = 10.0
# The next write drops the announcements of stored overriders. This many of them cause a write.
_MAX_SETTLED: Final = 50


async def _return_at_once(_namespace: str) -> None:
    """Read nothing."""


class ConditionWriter:
    """Writes the condition whenever the subjects or the configuration change."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], Selection],
        *,
        overriders: Callable[[], Collection[str]] = frozenset,
        exempt: Callable[[], Collection[SubjectName]] = frozenset,
        refresh: Callable[[str], Awaitable[None]] = _return_at_once,
        pause_seconds: float = _PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to. None of them is covered.
            overriders: Returns the uids of the overriders behind ``subjects``.
            exempt: Returns the subjects whose workloads policies render. An announced subject is not exempt.
            refresh: Reads the overriders of a namespace from the apiserver, so that ``subjects`` returns them; raises
                APIError, UnreachableError.
            pause_seconds: The minimum time between two writes.
            clock: A monotonic clock in seconds.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._overriders: Final = overriders
        self._exempt: Final = exempt
        self._refresh: Final = refresh
        self._pause_seconds: Final = pause_seconds
        self._clock: Final = clock
        self._bound: frozenset[SubjectName] = frozenset()
        # The time at which this leader found an announcement. Those without a uid are listed subjects unknown to it.
        self._found_at: dict[Announcement, float] = {}
        # Announced overriders that were stored meanwhile; from then on, the store decides about them.
        self._settled: frozenset[Announcement] = frozenset()
        self._changed: Final = asyncio.Event()
        self._changed.set()

    def wake(self) -> None:
        """Request a comparison, because the subjects or the configuration have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Compare and write after each `wake`, until cancelled."""
        failures = 0
        while True:
            await self._wait()
            self._changed.clear()
            try:
                await self.write()
                failures = 0
            except (APIError, UnreachableError) as error:
                self._changed.set()
                # A conflict is no failure: another replica has announced a subject meanwhile.
                failures += not (isinstance(error, APIError) and error.code == _CONFLICT)
                if failures == 1:
                    _log.warning("cannot write the match condition %s, trying again: %s", BOUND_CONDITION, error)
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, self._pause_seconds * 2 ** min(failures, 10)))

    async def _wait(self) -> None:
        """Wait for `wake`, but not beyond the expiry of an announcement."""
        ends = [at for at in map(self._compute_expiry, self._found_at.values()) if at > self._clock()]
        try:
            async with asyncio.timeout(min(ends) - self._clock() if ends else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def write(self) -> bool:
        """Write the condition if it differs; return whether it did. Raises APIError, UnreachableError."""
        registered = await self._client.read()
        if registered is None:
            return False
        bound = self._subjects()
        self._record(registered, bound.subjects)
        if expired := self._find_expired(registered, bound.subjects):
            # The watch of overriders may be late, so a live read precedes each removal.
            for namespace in sorted({subject.namespace for subject in expired}):
                await self._refresh(namespace)
            bound = self._subjects()
            expired -= bound.subjects
        announced = [one for one, at in self._found_at.items() if self._compute_expiry(at) > self._clock()]
        wanted = self._select(registered, bound, frozenset(one.subject for one in announced))
        self._bound = bound.subjects
        left = [one for one in registered.announcements if one in announced]
        many = len(registered.announcements) - len(left) > _MAX_SETTLED
        if not expired and not many and registered.selects(wanted) and not registered.is_owned:
            return False
        await self._client.write(registered, wanted, announcements=left)
        counts = {"refused": len(wanted.closed), "admitted": len(wanted.open), "byPolicies": len(wanted.covered)}
        _log.info("wrote the match condition %s", BOUND_CONDITION, extra={"fields": counts})
        return True

    def _select(self, registered: Registered, bound: Selection, announced: frozenset[SubjectName]) -> Selection:
        """Return the selection of the known and the announced subjects; an announced one is not covered."""
        opened = registered.listed.open if registered.listed else frozenset[SubjectName]()
        unknown = announced - bound.subjects
        closed, open_ = bound.closed | (unknown - opened), bound.open | (unknown & opened)
        covered = (bound.subjects - announced).intersection(self._exempt())
        return Selection(closed - covered, open_, covered)

    def _record(self, registered: Registered, bound: frozenset[SubjectName]) -> None:
        """Record the time at which announcements and subjects of other replicas were found.

        A subject whose overrider this leader has known, and which was deleted, is not recorded.
        """
        listed = registered.listed.subjects if registered.listed else frozenset[SubjectName]()
        announced = registered.announcements
        stored = frozenset(self._overriders()) if announced else frozenset()
        self._settled = frozenset(one for one in announced if one in self._settled or one.overrider in stored)
        known = bound.union(self._bound, (one.subject for one in announced))
        unknown = [Announcement(subject, "") for subject in sorted(listed - known)]
        now = self._clock()
        found = [*(one for one in announced if one not in self._settled), *unknown]
        self._found_at = {one: self._found_at.get(one, now) for one in found}

    def _find_expired(self, registered: Registered, bound: frozenset[SubjectName]) -> set[SubjectName]:
        """Return the announced subjects without an overrider whose announcement has expired."""
        over = {one.subject for one, at in self._found_at.items() if self._compute_expiry(at) <= self._clock()}
        listed = registered.listed
        return {one for one in over - bound if listed is None or one in listed.subjects or listed.spills(one)}

    def _compute_expiry(self, found: float) -> float:
        """Return the time until which an announced subject is kept without an overrider."""
        return found + _ANNOUNCED_SECONDS
