"""Keeping the list of the subjects with an overrider up to date in the webhook configuration: the leader's part."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from app.kube.errors import APIError, UnreachableError
from app.registration.condition_client import ConditionClient
from app.registration.selection import BOUND_CONDITION, SubjectName, bound_condition, listed_subjects

_log: Final = logging.getLogger(__name__)

# Every apiserver compiles the expression again after a change, so many overriders that go at once are one change. The
# first one is written without a pause.
_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0
_CONFLICT: Final = 409
# An apiserver that has admitted an overrider stores it within milliseconds.
_ANNOUNCED_SECONDS: Final = 10.0


class SelectionWriter:
    """Writes the condition whenever the subjects or the configuration change."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], Collection[SubjectName]] | None,
        *,
        pause_seconds: float = _PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to. None if nobody keeps them up to date: then the
                condition is removed, and all workloads of OpenYurt's subjects are sent.
            pause_seconds: The least time between two writes.
            clock: Seconds since any point.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._pause_seconds: Final = pause_seconds
        self._clock: Final = clock
        self._bound: frozenset[SubjectName] = frozenset()
        self._announced: dict[SubjectName, float] = {}
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
        """Wait for `wake`, no longer than until a subject that was announced has to go."""
        seconds = None
        if self._announced:
            seconds = max(0.0, min(self._announced.values()) + _ANNOUNCED_SECONDS - self._clock())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def write(self) -> bool:
        """Write the condition where it differs; return whether it did. Raises APIError, UnreachableError."""
        registered = await self._client.read()
        if registered is None:
            return False
        wanted = None
        if self._subjects is not None:
            bound = frozenset(self._subjects())
            wanted = bound_condition(bound | self._keep_announced(registered.expression, bound))
            self._bound = bound
        if all(condition == wanted for condition in registered.conditions.values()):
            return False
        await self._client.write(registered, wanted)
        length = len(wanted["expression"]) if wanted else 0
        _log.info("the condition %s was written", BOUND_CONDITION, extra={"fields": {"expressionLength": length}})
        return True

    def _keep_announced(self, expression: str | None, bound: frozenset[SubjectName]) -> frozenset[SubjectName]:
        """Return the subjects that replicas have added for overriders which are about to be stored.

        A subject of an overrider that this leader has known and that is gone is none of them.
        """
        listed = (listed_subjects(expression) if expression else None) or frozenset()
        now = self._clock()
        since = {subject: self._announced.get(subject, now) for subject in listed - bound - self._bound}
        self._announced = {subject: at for subject, at in since.items() if at + _ANNOUNCED_SECONDS > now}
        return frozenset(self._announced)
