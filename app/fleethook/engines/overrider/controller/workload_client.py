"""Reads workloads from the apiserver, touches them, and dry-runs changes.

All calls raise APIError if the apiserver or a webhook refuses the request, and UnreachableError if there is no answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import JSON_PATCH, MERGE_PATCH, Connection
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.list_reader import PAGE_LIMIT
from fleethook.cluster.kubernetes.list_watch import decode_page
from fleethook.cluster.kubernetes.resources import WORKLOADS, WatchedResource
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.admission.read_your_writes import trigger
from fleethook.engines.overrider.controller.owner_controller import OWNER_SECONDS
from fleethook.engines.overrider.controller.write_backoff import RateLimiter
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import TRIGGER_ANNOTATION
from fleethook.work.queue import Scheduler
from fleethook.work.turns import Turns

# Workloads to decode and compare between two pauses, at some 0.15 ms each.
_SLICE: Final = 2
_GONE: Final = 404


class WriteLimits(NamedTuple):
    """Limits of the rate at which a controller writes workloads."""

    per_second: float = 50.0
    """Touches per second on average."""
    at_once: int = 10
    """Concurrent touches."""
    owner_seconds: float = OWNER_SECONDS
    """Seconds to wait for a subject's controller to write a change itself, in addition to the time of its writes."""


class RequiredVersions(NamedTuple):
    """The versions that the replica which renders a touched workload must have seen."""

    overrider: str
    """The resourceVersion of the overrider, or of its deletion."""
    subject: str
    """The resourceVersion of the subject."""


class WriteResult(NamedTuple):
    """The answer to a write of a workload."""

    text: bytes
    document: JSONObject | None
    """The stored workload, None if the watch delivered that version before the answer arrived."""


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
        turns: Turns,
        limits: WriteLimits,
        now: Callable[[], datetime],
        scheduler: Scheduler | None = None,
    ) -> None:
        """Create a client.

        Args:
            connection: The connection to the apiserver.
            source: The informers of workloads.
            turns: Shares the event loop while workloads are decoded.
            limits: The limits of touches.
            now: Returns the time.
            scheduler: The clock of the limits; None for the running event loop.
        """
        self.touched = 0
        self._turns: Final = turns
        self._connection: Final = connection
        self._source: Final = source
        self._now: Final = now
        self._pace: Final = RateLimiter(limits.per_second, at_once=limits.at_once, scheduler=scheduler)
        self._slots: Final = asyncio.Semaphore(limits.at_once)
        # The trigger annotations of writes without an answer yet.
        self._writing: Final[dict[ObjectKey, str]] = {}

    def writing(self, key: ObjectKey) -> str | None:
        """Return the trigger annotation of a running write of a workload, None if no write is running."""
        return self._writing.get(key)

    async def read_all(self) -> AsyncIterator[tuple[ObjectKey, JSONObject]]:
        """Yield every workload that the apiserver stores."""
        for resource in WORKLOADS:
            token: str | None = ""
            while token is not None:
                items, token = await self._read_page(resource, token)
                for number, item in enumerate(items):
                    # The caller may need two milliseconds for a workload, so reviews get a turn.
                    if number % _SLICE == 0:
                        await self._turns.pause()
                    document = resource.decode(item)
                    yield self._source.informer(resource.group_kind).learn(document), document

    async def _read_page(self, resource: WatchedResource, token: str) -> tuple[list[msgspec.Raw], str | None]:
        query = {"limit": PAGE_LIMIT, "labelSelector": resource.selector, **({"continue": token} if token else {})}
        try:
            answer = await self._connection.request("GET", self._source.everywhere + resource.path, query=query)
        except APIError as error:
            if error.code == _GONE:
                return [], None  # The resource is not served; the informer retries.
            raise
        await self._turns.pause()
        page = decode_page(answer)
        return page.items, page.continue_token or None

    async def read(self, key: ObjectKey) -> JSONObject:
        """Return one workload that the apiserver stores."""
        async with self._slots:
            text = await self._connection.request("GET", self._path(key))
            await self._turns.pause()
            return self._learn(key, text)

    def decode(self, key: ObjectKey, written: WriteResult) -> JSONObject:
        """Return the workload in the answer of a write."""
        if written.document is not None:
            return written.document
        return self._source.informer(key.group_kind).resource.decode(written.text)

    async def touch(self, key: ObjectKey, *, seen: RequiredVersions, lane: Binding) -> WriteResult:
        """Change the trigger annotation of a workload, so that the webhook renders it.

        Args:
            key: The workload.
            seen: The versions that the rendering replica must have seen.
            lane: The subject of the workload; subjects share the limits fairly.
        """
        text = trigger(self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"), overrider=seen.overrider, subject=seen.subject)
        body: JSONObject = {"metadata": {"annotations": {TRIGGER_ANNOTATION: text}}}
        async with self._pace.turn(lane):
            self._writing[key] = text
            try:
                text_written = await self._patch(key, body, content_type=MERGE_PATCH)
                self.touched += 1
                await self._turns.pause()
                is_known = self._source.informer(key.group_kind).has_version_of(key, text_written)
                return WriteResult(text_written, None if is_known else self._learn(key, text_written))
            finally:
                del self._writing[key]

    async def dry_run(
        self, key: ObjectKey, workload: JSONObject, operations: Sequence[JSONObject], *, lane: Binding
    ) -> JSONObject:
        """Return the workload that the apiserver would store after a change.

        Args:
            key: The workload.
            workload: The workload that was read. If it changed since, the answer is 409 Conflict.
            operations: A JSON Patch of the workload.
            lane: See `touch`.
        """
        version = workload["metadata"]["resourceVersion"]
        unchanged: JSONObject = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        query = {"dryRun": "All"}
        async with self._pace.turn(lane):
            answer = await self._patch(key, [unchanged, *operations], content_type=JSON_PATCH, query=query)
        # The apiserver stores nothing, so the informer must not see the answer.
        return self._source.informer(key.group_kind).resource.decode(answer)

    async def _patch(
        self,
        key: ObjectKey,
        body: JSONObject | list[JSONObject],
        *,
        content_type: str,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        return await self._connection.request(
            "PATCH", self._path(key), body=body, content_type=content_type, query=query
        )

    def _learn(self, key: ObjectKey, text: bytes) -> JSONObject:
        informer = self._source.informer(key.group_kind)
        document = informer.resource.decode(text)
        informer.learn(document)
        return document

    def _path(self, key: ObjectKey) -> str:
        resource = self._source.informer(key.group_kind).resource
        return self._source.scope(key.cluster) + resource.in_namespace(key.namespace, key.name)
