"""Reads complete workloads. The store keeps partial ones only, and a prediction of rollouts needs all fields."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey
from fleethook.model.json import JSONObject

# Requests to the API server at the same time. kubectl's default is 50 requests per second.
_MAX_REQUESTS: Final = 10


class CompleteWorkloads(Protocol):
    """The complete Deployments and StatefulSets of a source."""

    @property
    def revision(self) -> int:
        """A number that changes with any workload whose partial copy does not show the change."""

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request, so that callers read only the necessary ones."""

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that exist and can be read."""


class ManifestWorkloads:
    """The workloads of manifest files, which are in memory."""

    is_remote: Final = False

    def __init__(self, source: ManifestSource) -> None:
        """Prepare to read the objects of a source."""
        self._source: Final = source

    @property
    def revision(self) -> int:
        """The revision of the files."""
        return self._source.revision

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that are in the files."""
        return {key: found.object for key in keys if (found := self._source.find(key)) is not None}


class ClusterWorkloads:
    """The workloads of a cluster, each read by a request."""

    is_remote: Final = True
    revision: Final = 0

    def __init__(self, read_one: Callable[[ObjectKey], Awaitable[Mapping[str, object]]]) -> None:
        """Prepare; ``read_one`` returns the object of a key, or raises APIError or UnreachableError."""
        self._read_one: Final = read_one
        self._slots: Final = asyncio.Semaphore(_MAX_REQUESTS)

    async def read(self, keys: Sequence[ObjectKey]) -> dict[ObjectKey, JSONObject]:
        """Return the workloads that the API server returns; those it refuses or lacks are left out."""
        answers = await asyncio.gather(*(self._try_read(key) for key in keys))
        return {key: answer for key, answer in zip(keys, answers, strict=True) if answer is not None}

    async def _try_read(self, key: ObjectKey) -> JSONObject | None:
        async with self._slots:
            try:
                return dict(await self._read_one(key))
            except (APIError, UnreachableError):
                return None
