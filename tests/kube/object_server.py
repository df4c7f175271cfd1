"""A kube-apiserver in memory: objects by path, with optimistic concurrency by resourceVersion."""

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

from app.kube.errors import APIError


class ObjectServer:
    """Objects by path; takes the place of a `Connection`.

    Attributes:
        objects: The stored objects.
        requests: The method and path of each request.
        error: An error for all requests, None to serve them.
        before_write: Functions to call before the next writes, for changes by another writer.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.requests: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.before_write: list[Callable[[], None]] = []
        self._version = 0

    def store(self, path: str, document: Any) -> None:
        """Store an object with a new resourceVersion."""
        self._version += 1
        metadata = {**document.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[path] = {**copy.deepcopy(document), "metadata": metadata}

    async def json(self, method: str, path: str, *, body: Any = None, **_timeout: float) -> Any:
        await asyncio.sleep(0)
        self.requests.append((method, path))
        if self.error is not None:
            raise self.error
        if method == "GET":
            if path not in self.objects:
                raise APIError(404, "NotFound", "not found")
            return copy.deepcopy(self.objects[path])
        if self.before_write:
            self.before_write.pop(0)()
        target = path if method == "PUT" else f"{path}/{body['metadata']['name']}"
        if method == "POST" and target in self.objects:
            raise APIError(409, "AlreadyExists", "already exists")
        if method == "PUT" and self._read_version(target) != body["metadata"]["resourceVersion"]:
            raise APIError(409, "Conflict", "the object has been modified")
        self.store(target, body)
        return copy.deepcopy(self.objects[target])

    async def request(self, method: str, path: str, *, body: Any = None) -> bytes:
        return json.dumps(await self.json(method, path, body=body)).encode()

    def _read_version(self, path: str) -> str | None:
        return self.objects[path]["metadata"]["resourceVersion"] if path in self.objects else None
