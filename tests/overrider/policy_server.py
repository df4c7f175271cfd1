"""An apiserver in memory that stores the objects of policies, lets clients watch them, and answers dry runs."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from app.kube.errors import APIError
from tests.apiserver_rules import not_found, parse_path, unserved

API = "/apis/admissionregistration.k8s.io/v1"
SERVED = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


class PolicyServer:
    """Stores objects by path. ``acts`` is whether dry runs are rendered, ``failures`` are raised first, ``written`` runs at each write."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.single: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: list[Exception] = []
        self.refuses: Exception | None = None
        self.served: tuple[str, ...] = SERVED
        self.lists_refused = False
        self.acts = True
        self.digest = ""
        self.written: list[Callable[[], None]] = []
        self._versions = itertools.count(1)
        self._watches: dict[asyncio.Queue[bytes | None], tuple[str, dict[str, str]]] = {}

    def serve(self, *plurals: str) -> None:
        """Serve these resources from now on; watches of others end."""
        self.served = plurals
        for events, (path, _) in self._watches.items():
            if path.rpartition("/")[2] not in plurals:
                events.put_nowait(None)

    def delete(self, *paths: str) -> None:
        """Delete objects as an administrator does."""
        for path in paths:
            self._notify("DELETED", path, self.objects.pop(path))

    async def json(self, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        return msgspec.json.decode(await self.request(method, path, query=query, body=body))

    async def request(self, method: str, path: str, *, query: Any = None, body: Any = None, **_: Any) -> bytes:
        if "limit" in (query or {}):  # the first list of a watch
            if self.lists_refused:
                raise APIError(403, "Forbidden", f"{path} is forbidden")
            return msgspec.json.encode(self._answer(method, path, query, body))
        self.requests.append((method, path))
        if method == "PATCH" and self.refuses is not None:
            raise self.refuses
        if self.failures:
            raise self.failures.pop(0)
        return msgspec.json.encode(self._answer(method, path, query or {}, body))

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Any, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        del idle
        self._check_served(path)
        events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watches[events] = (path, query)
        try:
            yield self._stream(events)
        finally:
            del self._watches[events]

    async def _stream(self, events: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        while (event := await events.get()) is not None:
            yield event

    def _notify(self, kind: str, place: str, document: Any) -> None:
        document["metadata"]["resourceVersion"] = str(next(self._versions))
        for events, (path, query) in self._watches.items():
            if self._is_listed(place, document, path, query):
                events.put_nowait(msgspec.json.encode({"type": kind, "object": document}))

    def _store(self, path: str, body: Any) -> Any:
        former = self.objects.get(path)
        generation = former["metadata"]["generation"] if former else 0
        if former is None or former.get("spec") != body.get("spec"):
            generation += 1
        stored = {**body, "metadata": {**body["metadata"], "generation": generation}}
        self.objects[path] = stored
        self._notify("MODIFIED" if former else "ADDED", path, stored)
        return stored

    def _check_served(self, path: str) -> None:
        if path.startswith(f"{API}/") and not self.served_at(path):
            raise unserved(path)

    def served_at(self, path: str) -> bool:
        return path.removeprefix(f"{API}/").partition("/")[0] in self.served

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        self._check_served(path)
        if path == API:
            return {"resources": [{"name": one} for one in self.served]}
        if method == "PATCH":
            for call in self.written:
                call()
            return self._store(path, body)
        if method == "DELETE":
            if path not in self.objects:
                raise not_found(parse_path(path))
            self.delete(path)
        elif method == "POST":
            assert query == {"dryRun": "All"}
            annotations = {"fleethook.io/rendered": self.digest} if self.acts else {}
            return {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        elif path in self.single:
            return self.single[path]
        elif method == "GET" and "clusterroles" in path:
            raise not_found(parse_path(path))
        elif method == "GET":
            self._check_served(path)
            return {"metadata": {"resourceVersion": str(next(self._versions))}, "items": list(self._list(path, query))}
        return {}

    def _list(self, path: str, query: dict[str, str]) -> Iterator[Any]:
        return (one for place, one in self.objects.items() if self._is_listed(place, one, path, query))

    def _is_listed(self, place: str, document: Any, path: str, query: dict[str, str]) -> bool:
        name, _, value = query["labelSelector"].partition("=")
        labels = document["metadata"].get("labels", {})
        return place.rpartition("/")[0] == path and name in labels and value in ("", labels[name])
