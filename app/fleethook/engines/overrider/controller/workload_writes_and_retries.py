"""Reads workloads from the apiserver, and touches them, with a backoff for each workload.

All requests raise APIError if the apiserver or a webhook refuses them, and UnreachableError if there is no answer.

The backoff belongs to the workload, so it also bounds conflicts: another controller reverts the render, a webhook
undoes it, or the apiserver refuses it. The controller resets the backoff when it requests another render (another
hash), and when it has not written the workload for a long time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.apiserver_connection import MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.list_reading_and_decoding import read_pages
from fleethook.cluster.kubernetes.watched_resources import WORKLOADS
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.render.undo_and_annotations import TRIGGER_MARK
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import TRIGGER_ANNOTATION
from fleethook.work.queue import Scheduler, draw_jitter, sleep

# Workloads to decode and compare between two pauses, at some 0.15 ms each.
_SLICE: Final = 2

# Touches per second on average, and at a time, of all subjects.
WRITES_PER_SECOND: Final = 50.0
_MAX_CONCURRENT: Final = 10
# Writes of one subject at a time, so that other subjects have their share of all writes.
MAX_CONCURRENT_OF_SUBJECT: Final = 10

# Pauses of 2, 6, 18, 54 s … make four writes in the first minute, at 0, 2, 8 and 26 s, with room for 20 % of jitter.
# The first retries come within seconds, because a webhook that restarts is unavailable only that long.
_FIRST_SECONDS: Final = 2.0
_FACTOR: Final = 3.0
# An outage of the apiserver or a webhook ends for all workloads at once.
_MAX_OUTAGE_SECONDS: Final = 60.0
_TOO_MANY_REQUESTS: Final = 429
# After this long without a write, and twice the last pause, the conflict is over.
_QUIET_SECONDS: Final = 120.0


class RequiredVersions(NamedTuple):
    """The versions that the replica which renders a touched workload must have seen."""

    overrider: str
    """The resourceVersion of the overrider; without one, of the last change of any overrider that was seen."""
    subject: str = ""
    """The resourceVersion of the subject; ``""`` if the subject is gone."""

    def write_trigger(self, time: str) -> str:
        """Return the text of the trigger annotation, which `FreshReads` of the webhook reads.

        Args:
            time: The time of the write, RFC 3339. An apiserver calls the webhook only if the text changes.
        """
        seen = f"{time} {TRIGGER_MARK}{self.overrider}"
        return f"{seen} subject@{self.subject}" if self.subject else seen


class WorkloadClient:
    """Sends requests within limits, and passes stored answers to the informers.

    Attributes:
        touched: The number of touched workloads.
    """

    def __init__(
        self,
        connection: Connection,
        source: KubernetesSource,
        *,
        per_second: float,
        now: Callable[[], datetime],
        scheduler: Scheduler,
    ) -> None:
        """Create a client.

        Args:
            connection: The connection to the apiserver.
            source: The informers of workloads.
            per_second: Touches per second on average.
            now: Returns the time.
            scheduler: The clock of the touches.
        """
        self.touched = 0
        self._connection: Final = connection
        self._source: Final = source
        self._now: Final = now
        self._scheduler: Final = scheduler
        self._interval: Final = 1.0 / per_second
        self._next = float("-inf")
        self._slots: Final = asyncio.Semaphore(_MAX_CONCURRENT)
        # Workloads whose touches have no answer yet.
        self._writing: Final[set[ObjectKey]] = set()

    def is_writing(self, key: ObjectKey) -> bool:
        """Return whether a touch of a workload has no answer yet."""
        return key in self._writing

    async def read_all(self) -> AsyncIterator[tuple[ObjectKey, JSONObject]]:
        """Yield every workload that the apiserver stores."""
        for resource in WORKLOADS:
            path = self._source.everywhere + resource.path
            try:
                async for page in read_pages(self._connection, path, resource, pause=lambda: asyncio.sleep(0)):
                    for number, item in enumerate(page.items):
                        # The caller may need two milliseconds for a workload, so reviews get a turn.
                        if number % _SLICE == 0:
                            await asyncio.sleep(0)
                        document = resource.decode(item)
                        yield self._source.informer(resource.group_kind).learn(document), document
            except APIError as error:
                if error.code != NOT_FOUND:
                    raise
                # The resource is not served; the informer retries.

    async def read(self, key: ObjectKey) -> JSONObject:
        """Return one workload that the apiserver stores."""
        async with self._slots:
            return await self._learn(key, await self._connection.request("GET", self._path(key)))

    async def touch(self, key: ObjectKey, *, seen: RequiredVersions) -> JSONObject:
        """Change the trigger annotation of a workload, so that the webhook renders it; return the stored workload.

        Args:
            key: The workload.
            seen: The versions that the rendering replica must have seen.
        """
        text = seen.write_trigger(self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        body: JSONObject = {"metadata": {"annotations": {TRIGGER_ANNOTATION: text}}}
        async with self._slots:
            await self._wait_for_turn()
            self._writing.add(key)
            try:
                answer = await self._connection.request("PATCH", self._path(key), body=body, content_type=MERGE_PATCH)
                self.touched += 1
                return await self._learn(key, answer)
            finally:
                self._writing.discard(key)

    async def _learn(self, key: ObjectKey, text: bytes) -> JSONObject:
        """Store an answer, unless a newer version is stored; return it.

        The subscriber of the store compares it at once. While `is_writing`, it queues no subject for a drift.
        """
        await asyncio.sleep(0)
        informer = self._source.informer(key.group_kind)
        document = informer.resource.decode(text)
        informer.learn(document)
        return document

    async def _wait_for_turn(self) -> None:
        now = self._scheduler.time()
        due = max(now, self._next)
        self._next = due + self._interval
        if due > now:
            await sleep(self._scheduler, due - now)

    def _path(self, key: ObjectKey) -> str:
        resource = self._source.informer(key.group_kind).resource
        return self._source.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)


class _Attempt(NamedTuple):
    digest: str
    """The hash that the write requested."""
    writes: int
    """The number of writes in a row."""
    last: float
    due: float
    problem: str = ""
    """The problem after the write as a message, ``""`` for none."""


class Backoff:
    """The recent writes of each workload."""

    def __init__(self, *, longest: float, jitter: Callable[[], float] = draw_jitter) -> None:
        """Prepare.

        Args:
            longest: The longest pause, in seconds.
            jitter: Returns a factor for each pause.
        """
        self._longest: Final = longest
        self._jitter: Final = jitter
        self._attempts: Final[dict[ObjectKey, _Attempt]] = {}

    def __len__(self) -> int:
        """Return the number of workloads with recent writes."""
        return len(self._attempts)

    def due(self, key: ObjectKey, digest: str, now: float) -> float:
        """Return the time when a workload may be written: ``now`` or later.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
        """
        attempt = self._find_attempt(key, digest, now)
        return now if attempt is None else max(attempt.due, now)

    def wrote(self, key: ObjectKey, digest: str, now: float) -> None:
        """Record a write before it is sent.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            now: The time in seconds.
        """
        before = self._find_attempt(key, digest, now) or _Attempt(digest, 0, now, now)
        self._attempts[key] = before._replace(writes=before.writes + 1, last=now, due=now + self._pause(before.writes))

    def ended(self, key: ObjectKey, problem: str, *, outage: bool = False) -> None:
        """Record the result of the last write.

        Args:
            key: The workload.
            problem: The problem as a message, ``""`` for none.
            outage: Whether the apiserver or a webhook did not answer.
        """
        attempt = self._attempts.get(key)
        if attempt is not None:
            due = min(attempt.due, attempt.last + _MAX_OUTAGE_SECONDS * self._jitter()) if outage else attempt.due
            self._attempts[key] = attempt._replace(problem=problem, due=due)

    def failed(self, key: ObjectKey, digest: str, error: APIError | UnreachableError, now: float) -> str:
        """Record the failure of the last write, or of the read before it; return the problem as a message.

        Args:
            key: The workload.
            digest: The hash that the write requests.
            error: The failure.
            now: The time in seconds.
        """
        if self.due(key, digest, now) <= now:
            self.wrote(key, digest, now)  # The read before the write failed.
        outage = not isinstance(error, APIError) or error.code >= 500 or error.code == _TOO_MANY_REQUESTS
        problem = f"the write failed: {error}" if isinstance(error, APIError) else str(error)
        self.ended(key, problem, outage=outage)
        return problem

    def problem(self, key: ObjectKey, digest: str, now: float) -> str:
        """Return the problem after the last write, ``""`` for none; arguments as of `due`."""
        attempt = self._find_attempt(key, digest, now)
        return attempt.problem if attempt else ""

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted workload."""
        self._attempts.pop(key, None)

    def prune(self, now: float) -> None:
        """Forget the workloads without a write for a long time."""
        for key, attempt in list(self._attempts.items()):
            if self._is_quiet(attempt, now):
                del self._attempts[key]

    def _find_attempt(self, key: ObjectKey, digest: str, now: float) -> _Attempt | None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.digest != digest or self._is_quiet(attempt, now):
            return None
        return attempt

    def _is_quiet(self, attempt: _Attempt, now: float) -> bool:
        return now - attempt.last > max(_QUIET_SECONDS, 2 * (attempt.due - attempt.last))

    def _pause(self, writes: int) -> float:
        return min(self._longest, _FIRST_SECONDS * _FACTOR ** min(writes, 16)) * self._jitter()
