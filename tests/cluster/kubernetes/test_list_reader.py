"""Lists against a scripted apiserver, without a watch."""

import asyncio
import contextlib
import gc
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.informer import Informer
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.list_reader import (
    MAX_OBJECTS,
    DiscoveryPauses,
    Lister,
    NotServedError,
    PageSize,
    RelistError,
    identified,
    unknown_versions,
)
from fleethook.cluster.kubernetes.resources import (
    DEFINITIONS,
    NODE_POOLS,
    RESOURCES,
    YURT_APP_SETS,
    WatchedResource,
    decode_object,
)
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.overrider.subject.subject_members import same_input
from fleethook.lifetime import run_in_background
from fleethook.model.json import JSONObject
from tests.apiserver_rules import not_found, parse_path
from tests.cluster.kubernetes.scripted import GADGETS, KIND, NOT_SERVED, Script, gadget, names, page
from tests.waiting import settled


def test_a_page_has_half_a_megabyte_of_objects_like_those_before() -> None:
    size = PageSize()
    first = size.limit
    size.note(objects=0, size=50)
    assert size.limit == first
    size.note(objects=20, size=20 * 13_000)
    assert size.limit == "40"
    size.note(objects=40, size=40 * 2_000_000)
    assert size.limit == "1"
    size.note(objects=1, size=10)
    assert size.limit == str(MAX_OBJECTS)


async def test_the_next_page_is_as_long_as_the_objects_of_the_first_one_allow() -> None:
    script = Script()
    script.lists.put_nowait(page(7, gadget("a", 5, text="x" * 100_000), more="rest"))
    script.lists.put_nowait(page(7, gadget("b", 6)))
    following = asyncio.create_task(Informer(GADGETS, script, Store()).run())
    await settled(lambda: len(script.asked) >= 2)
    following.cancel()
    assert [one["limit"] for one in script.asked[:2]] == ["20", "5"]


async def pause() -> None:
    await asyncio.sleep(0)


def lister(script: Script, store: Store, *older: str) -> Lister:
    resource = GADGETS._replace(older_versions=older)
    return Lister(resource, script, store, prefix="", served=unknown_versions, pause=pause)


async def test_a_list_replaces_all_objects_and_returns_its_resource_version() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    assert await reader.read() == "10"
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(page(21, gadget("c", 15)))
    assert await reader.read() == "21"
    assert list(names(store)) == ["b", "c"]
    assert [asked.get("continue") for asked in script.asked] == [None, None, "token"]


async def test_a_list_removes_the_objects_of_a_namespace_that_it_lacks() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    other = gadget("a", 3)
    other["metadata"]["namespace"] = "other"
    script.lists.put_nowait(page(10, gadget("a", 3), other))
    await reader.read()
    script.lists.put_nowait(page(20, other))
    await reader.read()
    assert store.namespaces(KIND) == [("", "other")]


async def test_a_list_never_holds_the_keys_of_all_objects() -> None:
    """Making or freeing 100,000 keys in one step took 50 ms."""
    script, store = Script(), Store()
    pauses = itertools.count(1)
    alive: list[int] = []

    def count_keys() -> int:
        return sum(type(one) is ObjectKey for one in gc.get_objects())

    async def pause_and_count() -> None:
        # Counting takes long. The last pauses are those of the comparison.
        number = next(pauses)
        if number % 100 == 0 or number > 1_250:
            alive.append(count_keys())

    reader = Lister(GADGETS, script, store, prefix="", served=unknown_versions, pause=pause_and_count)
    documents = [gadget(f"g{number}", number) for number in range(5_000)]
    for _ in range(2):
        script.lists.put_nowait(page(10, *documents))
    await reader.read()
    before = count_keys()
    alive.clear()
    pauses = itertools.count(1)
    await reader.read()
    assert len(alive) > 12
    assert max(alive) - before < 10


async def test_an_expired_continue_token_is_an_error_and_removes_no_object() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    await reader.read()
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(RelistError):
        await reader.read()
    assert list(names(store)) == ["a", "b"]


async def test_the_first_served_version_is_read() -> None:
    script, store = Script(), Store()
    reader = lister(script, store, "v1beta1")
    script.lists.put_nowait(NOT_SERVED)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    assert await reader.read() == "10"
    assert reader.versions.current.version == "v1beta1"


async def test_without_a_served_version_the_list_fails() -> None:
    script = Script()
    for _ in range(2):
        script.lists.put_nowait(NOT_SERVED)
    with pytest.raises(NotServedError):
        await lister(script, Store(), "v1beta1").read()


async def test_other_errors_do_not_try_an_older_version() -> None:
    script = Script()
    script.lists.put_nowait(APIError(403, "Forbidden", "cannot list"))
    with pytest.raises(APIError, match="cannot list"):
        await lister(script, Store(), "v1beta1").read()
    assert len(script.asked) == 1


def test_items_get_the_kind_of_their_list() -> None:
    assert identified({"kind": "Other"}, GADGETS) == {"apiVersion": "example.com/v1", "kind": "Gadget"}


class Sleeps:
    """Pauses that the test ends, or that end at once."""

    def __init__(self, *, endless: bool = False) -> None:
        self.slept: list[float] = []
        self._endless = endless

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._endless:
            await asyncio.Event().wait()


async def test_pauses_are_long_without_a_change() -> None:
    sleeps = Sleeps()
    pauses = DiscoveryPauses(10.0, sleep=sleeps.sleep)
    for _ in range(3):
        await pauses.pause()
    assert sleeps.slept == [10.0] * 3


async def test_pauses_after_a_change_are_short_and_grow_to_the_usual_one() -> None:
    sleeps = Sleeps()
    pauses = DiscoveryPauses(0.5, sleep=sleeps.sleep)
    pauses.end()
    for _ in range(5):
        await pauses.pause()
    assert sleeps.slept == [0.1, 0.2, 0.4, 0.5, 0.5]


async def test_end_ends_the_current_pause_and_the_next_is_the_shortest() -> None:
    sleeps = Sleeps(endless=True)
    pauses = DiscoveryPauses(10.0, sleep=sleeps.sleep)
    for expected in ([10.0], [10.0, 0.1]):
        pausing = asyncio.create_task(pauses.pause())
        while sleeps.slept != expected:
            await asyncio.sleep(0)
        assert not pausing.done()
        pauses.end()
        await asyncio.wait_for(pausing, 60)


VERSIONED_GADGETS = WatchedResource("example.com", "v2", "gadgets", "Gadget", decode_object, older_versions=("v1",))
USUAL = 10.0
KEY = ObjectKey("", KIND, "ns", "a")


class Server:
    """Serves gadgets in some versions; a stream ends when its version is withdrawn.

    Attributes:
        items: The objects of each version that is served.
        errors: Errors that requests of a version get instead.
        asked: The version and query of each list.
        held: If not None, lists except the first page wait until it is set.
        slept: The pauses; a test ends each of them by `wake`.
    """

    def __init__(self, **items: list[dict[str, Any]]) -> None:
        self.items = items
        self.errors: dict[str, APIError] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.singles: list[str] = []
        self.definitions: list[dict[str, Any]] = []
        self.held: asyncio.Event | None = None
        self.paged = False
        self.slept: list[float] = []
        self.streams: list[tuple[str, asyncio.Queue[Any]]] = []
        self._sleepers: list[asyncio.Event] = []
        self._version = 100

    def withdraw(self, version: str) -> None:
        del self.items[version]
        for of, stream in self.streams:
            if of == version:
                stream.put_nowait(None)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds < USUAL:
            await asyncio.sleep(0)
            return
        sleeper = asyncio.Event()
        self._sleepers.append(sleeper)
        try:
            await sleeper.wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def wake(self) -> None:
        """Wait for the usual pause, and end it."""
        await settled(lambda: self._sleepers)
        self._sleepers.pop().set()

    def _check(self, version: str) -> None:
        if version in self.errors:
            raise self.errors[version]
        if version not in self.items:
            raise NOT_SERVED

    async def request(self, method: str, path: str, *, query: Any = None, **_: Any) -> bytes:
        assert method == "GET"
        if path == DEFINITIONS.path:
            return json.dumps(page(1, *self.definitions)).encode()
        version, rest = path.removeprefix("/apis/example.com/").split("/", 1)
        if rest != "gadgets":
            self.singles.append(version)
            return await self._single(version, rest.rsplit("/", 1)[-1])
        self.asked.append((version, dict(query)))
        self._check(version)
        self._version += 1
        items = self.items[version]
        if not self.paged:
            return json.dumps(page(self._version, *items)).encode()
        if not query.get("continue"):
            return json.dumps(page(self._version, *items[:1], more="rest")).encode()
        if self.held is not None:
            await self.held.wait()
        return json.dumps(page(self._version, *items[1:])).encode()

    async def _single(self, version: str, name: str) -> bytes:
        if self.held is not None:
            await self.held.wait()
        self._check(version)
        for item in self.items[version]:
            if item["metadata"]["name"] == name:
                return json.dumps(item).encode()
        raise not_found(parse_path(f"/apis/example.com/{version}/gadgets/{name}"))

    @contextlib.asynccontextmanager
    async def lines(self, path: str, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        stream: asyncio.Queue[Any] = asyncio.Queue()
        version = path.removeprefix("/apis/example.com/").partition("/")[0]
        if path != DEFINITIONS.path:
            self._check(version)
        self.streams.append((version, stream))

        async def each() -> AsyncIterator[bytes]:
            while (step := await stream.get()) is not None:
                yield json.dumps(step).encode()

        yield each()

    @property
    def lists(self) -> list[str]:
        return [version for version, _ in self.asked]


def definition(*served: str) -> dict[str, Any]:
    versions = [{"name": name, "served": name in served} for name in ("v1", "v2")]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": VERSIONED_GADGETS.name, "resourceVersion": "1"},
        "spec": {"versions": versions},
    }


@contextlib.asynccontextmanager
async def following(server: Server, store: Store, *resources: WatchedResource) -> AsyncIterator[KubernetesSource]:
    source = KubernetesSource(resources or [VERSIONED_GADGETS], server, store, absent_seconds=USUAL, sleep=server.sleep)
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await source.wait_synced()
        await settled(lambda: server.slept and server.streams)
        yield source


def read(store: Store) -> dict[str, str]:
    """The version in which each object is stored."""
    found = {one["metadata"]["name"]: one["apiVersion"] for one in store.each("", KIND)}
    return {name: version.removeprefix("example.com/") for name, version in found.items()}


class Emptiness:
    """Records whether the store was ever empty after a change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.emptied = False
        store.subscribe(self.changed)

    def changed(self, key: ObjectKey, before: JSONObject | None, after: JSONObject | None) -> None:
        del key, before, after
        self.emptied |= not read(self._store)


async def collect_versions(store: Store, seen: set[frozenset[str]]) -> None:
    """Record the stored versions in each iteration of the event loop."""
    while True:
        seen.add(frozenset(read(store).values()))
        await asyncio.sleep(0)


def test_openyurt_kinds_are_read_in_their_best_version() -> None:
    versions = {one.kind: [each.version for each in one.in_versions()] for one in RESOURCES}
    assert versions == {
        "YurtAppOverrider": ["v1alpha1"],
        "YurtAppSet": ["v1beta1", "v1alpha1"],
        "YurtAppDaemon": ["v1alpha1"],
        "NodePool": ["v1beta2", "v1beta1", "v1alpha1"],
    }
    assert YURT_APP_SETS.path == "/apis/apps.openyurt.io/v1beta1/yurtappsets"
    assert NODE_POOLS.in_versions()[2].in_namespace("", "a") == "/apis/apps.openyurt.io/v1alpha1/nodepools/a"


async def test_a_served_best_version_is_the_only_one_requested() -> None:
    server, store = Server(v1=[gadget("a", 3)], v2=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        assert read(store) == {"a": "v2"}
        assert server.lists == ["v2"]
        assert source.informer(KIND).resource.version == "v2"
        for _ in range(5):
            await server.wake()
        assert server.lists == ["v2"]


async def test_an_older_version_is_read_while_the_best_one_is_polled() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    async with following(server, store):
        assert read(store) == {"a": "v1"}
        assert server.lists == ["v2", "v1"]
        for count in (1, 2, 3):
            await server.wake()
            await settled(lambda: len(server.asked) == 2 + count)  # noqa: B023 - called at once
        assert server.asked[2:] == [("v2", {"limit": "1"})] * 3
        assert server.slept == [USUAL] * len(server.slept)


async def test_a_better_version_that_appears_replaces_all_objects_in_one_step() -> None:
    server, store = Server(v1=[gadget("a", 3), gadget("b", 4), gadget("gone", 5)]), Store()
    async with following(server, store) as source:
        emptiness, seen = Emptiness(store), set[frozenset[str]]()
        server.paged, server.held = True, asyncio.Event()
        server.items["v2"] = [gadget("a", 3), gadget("b", 4), gadget("new", 6)]
        looking = asyncio.create_task(collect_versions(store, seen))
        await server.wake()
        await settled(lambda: ("v2", "rest") in [(version, query.get("continue")) for version, query in server.asked])
        assert read(store) == {"a": "v1", "b": "v1", "gone": "v1"}
        assert source.informer(KIND).resource.version == "v1"
        server.held.set()
        await settled(lambda: read(store) == {"a": "v2", "b": "v2", "new": "v2"})
        await settled(lambda: frozenset({"v2"}) in seen)
        looking.cancel()
        assert (seen, emptiness.emptied) == ({frozenset({"v1"}), frozenset({"v2"})}, False)
        await settled(lambda: server.streams[-1][0] == "v2")
        server.streams[-1][1].put_nowait({"type": "ADDED", "object": gadget("later", 200)})
        await settled(lambda: read(store).get("later") == "v2")


async def test_an_older_version_replaces_a_withdrawn_one() -> None:
    server, store = Server(v2=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        emptiness = Emptiness(store)
        server.items["v1"] = [gadget("a", 3)]
        server.withdraw("v2")
        await settled(lambda: read(store) == {"a": "v1"})
        assert not emptiness.emptied
        assert source.informer(KIND).resource.version == "v1"


async def test_objects_stay_while_no_version_is_served_between_two() -> None:
    """kube-apiserver registers a new version a second or two after it has removed the old one."""
    server, store = Server(v1=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        emptiness = Emptiness(store)
        before = len(server.asked)
        server.withdraw("v1")
        await settled(lambda: len(server.asked) >= before + 6)
        assert read(store) == {"a": "v1"}
        assert "no version" in source.informer(KIND).state().detail
        server.items["v2"] = [gadget("a", 3)]
        await settled(lambda: read(store) == {"a": "v2"})
        assert not emptiness.emptied
        assert source.informer(KIND).state().detail == ""


async def test_a_resource_without_any_version_for_long_is_unserved() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        server.withdraw("v1")
        await settled(lambda: not read(store))
        assert "not served" in source.informer(KIND).state().detail
        assert not source.informer(KIND).state().failing


@pytest.mark.parametrize("code", [429, 500, 503, 403])
async def test_other_errors_than_not_found_do_not_select_an_older_version(code: int) -> None:
    server, store = Server(v1=[gadget("a", 3)], v2=[gadget("a", 3)]), Store()
    server.errors["v2"] = APIError(code, "", "conversion webhook failed")
    source = KubernetesSource([VERSIONED_GADGETS], server, store, absent_seconds=USUAL, sleep=server.sleep)
    async with run_in_background(source.run(), name="source", ended=pytest.fail):
        await settled(lambda: len(server.asked) >= 5)
        assert set(server.lists) == {"v2"}
        assert (source.synced, read(store)) == (False, {})
        assert "conversion webhook failed" in source.missing([KIND])
        del server.errors["v2"]
        await settled(lambda: read(store) == {"a": "v2"})


async def test_an_unreadable_better_version_is_reported_while_the_older_one_is_watched() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        server.errors["v2"] = APIError(500, "", "conversion webhook failed")
        await server.wake()
        await settled(lambda: source.informer(KIND).state().failing)
        assert "v1 cannot be read: 500: conversion webhook failed" in source.informer(KIND).state().detail
        server.streams[-1][1].put_nowait({"type": "ADDED", "object": gadget("b", 200)})
        await settled(lambda: read(store) == {"a": "v1", "b": "v1"})
        del server.errors["v2"]
        await server.wake()
        await settled(lambda: not source.informer(KIND).state().failing)


async def test_a_definition_saves_requests_for_unserved_versions() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    server.definitions = [definition("v1")]
    async with following(server, store, VERSIONED_GADGETS, DEFINITIONS):
        for _ in range(5):
            await server.wake()
        assert server.lists == ["v2", "v1"]
        store.put(definition("v1", "v2"))
        await settled(lambda: server.slept[-4:] == [0.1, 0.2, 0.4, 0.8])
        server.items["v2"] = [gadget("a", 3)]
        await settled(lambda: read(store) == {"a": "v2"})
        assert len(server.asked) <= 12


async def test_a_definition_without_the_current_version_ends_its_watch() -> None:
    server, store = Server(v2=[gadget("a", 3)]), Store()
    server.definitions = [definition("v2")]
    async with following(server, store, VERSIONED_GADGETS, DEFINITIONS):
        server.items = {"v1": [gadget("a", 3)]}
        store.put(definition("v1"))
        await settled(lambda: read(store) == {"a": "v1"})


async def test_a_live_read_is_repeated_if_the_version_changes_meanwhile() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        server.held = asyncio.Event()
        reading = asyncio.create_task(source.read_one(KIND, cluster="", namespace="ns", name="a"))
        await settled(lambda: server.singles == ["v1"])
        server.items["v2"] = [gadget("a", 3)]
        await server.wake()
        await settled(lambda: read(store) == {"a": "v2"})
        server.items = {one: [gadget("a", 300, live=one)] for one in ("v1", "v2")}
        server.held.set()
        await reading
        assert server.singles == ["v1", "v2"]
        stored = store.get(*KEY)
        assert stored is not None
        assert (stored["apiVersion"], stored["spec"]) == ("example.com/v2", {"live": "v2"})


async def test_a_live_read_of_a_withdrawn_version_removes_no_object() -> None:
    server, store = Server(v2=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        server.items = {"v1": [gadget("a", 3)]}
        with pytest.raises(APIError, match="page not found"):
            await source.read_one(KIND, cluster="", namespace="ns", name="a")
        assert read(store) == {"a": "v2"}
        server.items = {"v2": []}
        await source.read_one(KIND, cluster="", namespace="ns", name="a")
        assert read(store) == {}


async def test_the_same_object_in_another_version_is_a_change() -> None:
    server, store = Server(v1=[gadget("a", 3)]), Store()
    changes: list[tuple[Any, Any]] = []
    async with following(server, store):
        store.subscribe(lambda _key, before, after: changes.append((before, after)))
        server.items["v2"] = [gadget("a", 3)]
        await server.wake()
        await settled(lambda: read(store) == {"a": "v2"})
        ((before, after),) = changes
        assert not same_input(before, after)
