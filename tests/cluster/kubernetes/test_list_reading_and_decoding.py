import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_CLUSTER, Lister, find_list_path, is_required
from fleethook.cluster.kubernetes.watched_resources import (
    APIBINDINGS,
    DEFINITIONS,
    NAMESPACES,
    WORKSPACES,
    YURT_APP_SETS,
    WatchedResource,
    decode_object,
)
from fleethook.cluster.store import ObjectKey, Store
from fleethook.model.json import JSONObject
from tests.apiserver_rules import not_found, parse_path
from tests.cluster.kubernetes.scripted import GADGETS, KIND, NOT_SERVED, Script, gadget, names, page
from tests.waiting import settled


@pytest.mark.parametrize("prefix", ["", "/clusters/root"])
async def test_one_cluster_needs_no_identity(prefix: str) -> None:
    assert await find_list_path(Script(), WORKSPACES, prefix) == prefix + WORKSPACES.path


@pytest.mark.parametrize(
    ("resource", "prefix", "required"),
    [
        (NAMESPACES, "", True), (NAMESPACES, EVERY_CLUSTER, True), (YURT_APP_SETS, "", False),
        (APIBINDINGS, "", False), (APIBINDINGS, EVERY_CLUSTER, True), (WORKSPACES, EVERY_CLUSTER, True),
    ],
)  # fmt: skip
def test_a_404_is_a_fault_of_kinds_that_need_no_definition(
    resource: WatchedResource, prefix: str, *, required: bool
) -> None:
    assert is_required(resource, prefix) is required


async def pause() -> None:
    await asyncio.sleep(0)


def lister(script: Script, store: Store) -> Lister:

    return Lister(GADGETS, script, store, prefix="", pause=pause)


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


async def test_an_expired_continue_token_is_an_error_and_removes_no_object() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    await reader.read()
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(APIError, match="too old"):
        await reader.read()
    assert list(names(store)) == ["a", "b"]


VERSIONED_GADGETS = WatchedResource("example.com", "v2", "gadgets", "Gadget", decode_object, older_versions=("v1",))
USUAL = 10.0


class Server:
    """Serves gadgets in some versions; a stream ends when its version is withdrawn.

    Attributes:
        items: The objects of each version that is served.
        errors: Errors that requests of a version get instead.
        asked: The version and query of each list.
        slept: The pauses; the usual one does not end.
    """

    def __init__(self, **items: list[dict[str, Any]]) -> None:
        self.items = items
        self.errors: dict[str, APIError] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.singles: list[str] = []
        self.definitions: list[dict[str, Any]] = []
        self.slept: list[float] = []
        self.streams: list[tuple[str, asyncio.Queue[Any]]] = []
        self._version = 100

    def withdraw(self, version: str) -> None:
        del self.items[version]
        for of, stream in self.streams:
            if of == version:
                stream.put_nowait(None)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await (asyncio.sleep(0) if seconds < USUAL else asyncio.Event().wait())

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
        return json.dumps(page(self._version, *self.items[version])).encode()

    async def _single(self, version: str, name: str) -> bytes:
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
        await settled(lambda: server.streams)
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


async def test_a_served_best_version_is_the_only_one_requested() -> None:
    server, store = Server(v1=[gadget("a", 3)], v2=[gadget("a", 3)]), Store()
    async with following(server, store) as source:
        assert read(store) == {"a": "v2"}
        assert server.lists == ["v2"]
        assert source.informer(KIND).resource.version == "v2"


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
        await settled(lambda: source.informer(KIND).state().detail == "")


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


async def test_a_changed_definition_causes_a_list_in_the_best_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleethook.cluster.kubernetes.informer_and_backoff._SERVED_SECONDS", 0.0)
    server, store = Server(v1=[gadget("a", 3), gadget("gone", 4)]), Store()
    server.definitions = [definition("v1")]
    async with following(server, store, VERSIONED_GADGETS, DEFINITIONS) as source:
        assert (read(store), server.lists) == ({"a": "v1", "gone": "v1"}, ["v2", "v1"])
        server.items["v2"] = [gadget("a", 3)]
        store.put(definition("v1", "v2"))
        await settled(lambda: read(store) == {"a": "v2"})
        lists = len(server.asked)
        store.put(definition("v2"))
        await settled(lambda: server.streams[-1][0] == "v2")
        assert (len(server.asked), source.informer(KIND).resource.version) == (lists, "v2")


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
