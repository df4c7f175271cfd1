"""Tests that reviews use the newest subject although every message between apiserver and fleethook is late."""

import asyncio
import contextlib
import copy
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from app.kube.errors import APIError
from app.lifetime import run_in_background
from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.plan_cache import PlanCache
from app.overrider.read_your_writes import ensure_fresh_workload
from app.overrider.workload_admission import mutate_workload
from app.patch import apply
from app.store import Store
from app.store.sources.kubernetes.resources import RESOURCES
from app.store.sources.kubernetes.source import KubernetesSource
from tests.builders import container, entry, image, overrider, patch, pool, request, workload, yurt_app_set

GROUP = "/apis/apps.openyurt.io/v1alpha1"
SETS, OVERRIDERS = f"{GROUP}/yurtappsets", f"{GROUP}/yurtappoverriders"
SUBJECT = f"{GROUP}/namespaces/default/yurtappsets/demo"
POOLS = [f"pool-{number}" for number in range(8)]


class Apiserver:
    """An apiserver with two resources. Requests, answers and events each take ``delay`` seconds."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._version = 0
        self._objects: dict[str, dict[str, Any]] = {SETS: {}, OVERRIDERS: {}}
        self._watchers: dict[str, list[asyncio.Queue[bytes]]] = {}
        self.reads: Counter[str] = Counter()
        self.broken = False

    def put(self, collection: str, document: dict[str, Any]) -> None:
        self._version += 1
        stored = copy.deepcopy(document)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self._objects[collection][stored["metadata"]["name"]] = stored
        event = msgspec.json.encode({"type": "MODIFIED", "object": stored})
        for watcher in self._watchers.get(collection, []):
            asyncio.get_running_loop().call_later(self._delay, watcher.put_nowait, event)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float = 1,  # noqa: ASYNC109
    ) -> bytes:
        del method, timeout
        await asyncio.sleep(self._delay)
        if query is None:
            self.reads[path] += 1
            if self.broken:
                raise APIError(500, "InternalError", "conversion webhook failed")
        answer = msgspec.json.encode(self._answer(path))
        await asyncio.sleep(self._delay)
        return answer

    def _answer(self, path: str) -> dict[str, Any]:
        collection = path.replace("/namespaces/default", "")
        if collection in self._objects:
            items = list(self._objects[collection].values())
            return {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        parent, _, name = collection.rpartition("/")
        if name not in self._objects.get(parent, {}):
            raise APIError(404, "NotFound", f'"{name}" not found')
        return dict(self._objects[parent][name])

    @contextlib.asynccontextmanager
    async def lines(self, path: str, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.setdefault(path, []).append(queue)

        async def events() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        yield events()


class Fleethook:
    """A store that follows the delayed watch, and reviews that use it."""

    def __init__(self, server: Apiserver) -> None:
        self.server = server
        self.store = Store([OVERRIDERS_BY_SUBJECT])
        self.source = KubernetesSource(RESOURCES, server, self.store, absent_seconds=60)
        self._plans = PlanCache()

    async def review(self, old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
        """Return the workload that the apiserver stores."""
        asked = request(new, operation="UPDATE" if old else "CREATE", old=old)
        if (reading := ensure_fresh_workload(asked, store=self.store, live=self.source)) is not None:
            await reading
        answer = mutate_workload(asked, store=self.store, plans=self._plans)
        assert answer.allowed, answer.message
        return dict(apply(new, answer.patch))


@contextlib.asynccontextmanager
async def follow(server: Apiserver) -> AsyncIterator[Fleethook]:
    made = Fleethook(server)
    async with run_in_background(made.source.run(), name="source", ended=pytest.fail):
        await made.source.wait_synced()
        yield made


def subject(**fields: Any) -> dict[str, Any]:
    """The YurtAppSet of all node pools. ``fields`` are fields of its container."""
    made = yurt_app_set(pools=[pool(name) for name in POOLS])
    template = made["spec"]["workloadTemplate"]["deploymentTemplate"]
    template["spec"]["template"]["spec"]["containers"] = [container(**fields)]
    return made


def sent(stored: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The write of the owner's controller: the stored workload with the present template."""
    made = copy.deepcopy(stored)
    made["spec"]["template"]["spec"]["containers"] = [container(**fields)]
    return made


def container_of(stored: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stored["spec"]["template"]["spec"]["containers"][0]
    return found


RULE = overrider(entry("*", items=[image("nginx", "mirror/nginx:2.0")]))


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.2])
async def test_an_update_is_rendered_from_the_template_that_caused_it(delay: float) -> None:
    server = Apiserver(delay)
    server.put(SETS, subject(args=["--old"]))
    server.put(OVERRIDERS, RULE)
    async with follow(server) as fleethook:
        stored = await fleethook.review(None, workload(pool=POOLS[0]))
        assert container_of(stored) == container(image="mirror/nginx:2.0", args=["--old"])
        for args in (["--new"], None):
            members = {"args": args} if args else {}
            server.put(SETS, subject(**members))
            stored = await fleethook.review(stored, sent(stored, **members))
            assert container_of(stored) == container(image="mirror/nginx:2.0", **members)


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.2])
async def test_an_update_is_rendered_with_the_newest_overrider(delay: float) -> None:
    server = Apiserver(delay)
    server.put(SETS, subject())
    server.put(OVERRIDERS, RULE)
    async with follow(server) as fleethook:
        stored = await fleethook.review(None, workload(pool=POOLS[0]))
        limit = patch("add", "/spec/minReadySeconds", 5)
        server.put(OVERRIDERS, overrider(entry("*", items=[image("nginx", "mirror/nginx:3.0")], patches=[limit])))
        stored = await fleethook.review(stored, sent(stored, args=["--by-hand"]))
        assert container_of(stored)["image"] == "mirror/nginx:3.0"
        assert stored["spec"]["minReadySeconds"] == 5


@pytest.mark.parametrize("delay", [0.02, 0.2])
async def test_reviews_of_a_subject_share_only_reads_that_start_after_them(delay: float) -> None:
    server = Apiserver(delay)
    server.put(SETS, subject(args=["--0"]))
    server.put(OVERRIDERS, RULE)
    async with follow(server) as fleethook:
        created = await asyncio.gather(*(fleethook.review(None, workload(pool=name)) for name in POOLS))
        stored = dict(zip(POOLS, created, strict=True))
        server.reads.clear()
        waves = []
        # Each wave arrives during the read of the former wave: its request has not reached the server yet, or its answer
        # has left the server.
        for number in (1, 2, 3):
            args = [f"--{number}"]
            server.put(SETS, subject(args=args))
            reviews = [fleethook.review(stored[name], sent(stored[name], args=args)) for name in POOLS]
            waves.append((args, asyncio.gather(*reviews)))
            await asyncio.sleep(delay * 0.7)
        for args, wave in waves:
            results = await wave
            # The template may be that of a later wave, but not that of an earlier one.
            assert all(container_of(result)["args"] >= args for result in results)
        assert server.reads[SUBJECT] <= 3
        assert container_of(results[0])["args"] == ["--3"]


async def test_after_a_failed_read_the_store_answers(caplog: pytest.LogCaptureFixture) -> None:
    server = Apiserver(0.001)
    server.put(SETS, subject())
    server.put(OVERRIDERS, RULE)
    async with follow(server) as fleethook:
        stored = await fleethook.review(None, workload(pool=POOLS[0]))
        server.broken = True
        stored = await fleethook.review(stored, sent(stored, args=["--by-hand"]))
        assert container_of(stored)["image"] == "mirror/nginx:2.0"
        assert "live read failed, using the store: 500 InternalError: conversion webhook failed" in caplog.text
