"""An apiserver whose responses a test scripts one by one."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.informer_and_backoff import Informer
from fleethook.cluster.kubernetes.watched_resources import WatchedResource, decode_object
from fleethook.cluster.store import Store
from fleethook.model.gvk import GroupKind
from tests.apiserver_rules import unserved

KIND = GroupKind("example.com", "Gadget")
GADGETS = WatchedResource("example.com", "v1", "gadgets", "Gadget", decode_object)

Step = Callable[[dict[str, str]], Any]


def gadget(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}, "spec": spec}


def page(version: int, *items: dict[str, Any], more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def event(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Gadget", "metadata": {"resourceVersion": str(version)}})


def gone() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


END = "the stream ends"


class Script:
    """Answers lists and watches from two queues, and records the requests."""

    def __init__(self) -> None:
        self.lists: asyncio.Queue[Any] = asyncio.Queue()
        self.watches: asyncio.Queue[Any] = asyncio.Queue()
        self.asked: list[dict[str, str]] = []
        self.singles: dict[str, Any] = {}
        self.slept: list[float] = []

    async def request(self, method: str, path: str, *, query: Any = None, **_: Any) -> bytes:
        del method
        if path in self.singles:
            answer = await self.singles[path]()
        else:
            self.asked.append(dict(query or {}))
            answer = await self.lists.get()
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Any, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        del path, idle
        self.asked.append(dict(query))
        first = await self.watches.get()
        if isinstance(first, Exception):
            raise first
        yield self._stream(first)

    async def _stream(self, first: Any) -> AsyncIterator[bytes]:
        step = first
        while step != END:
            if isinstance(step, Exception):
                raise step
            yield json.dumps(step).encode()
            step = await self.watches.get()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def put(self, *steps: Any) -> None:
        for step in steps:
            self.watches.put_nowait(step)

    @property
    def places(self) -> list[str]:
        return [asked["resourceVersion"] for asked in self.asked if "watch" in asked]


@contextlib.asynccontextmanager
async def informing(script: Script, store: Store) -> AsyncIterator[Informer]:
    informer = Informer(GADGETS, script, store, sleep=script.sleep)
    ended: list[str] = []
    async with run_in_background(informer.run(), name="informer", ended=ended.append):
        yield informer
    assert ended == []


def names(store: Store) -> dict[str, Any]:
    return {key.name: store.get(*key)["spec"] for key in store.keys(KIND)}


NOT_SERVED = unserved(GADGETS.path)
