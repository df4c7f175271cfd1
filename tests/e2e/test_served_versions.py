"""A kind whose served versions change on a real apiserver, as in an upgrade and a downgrade of OpenYurt."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fleethook.cluster.connection import Connection
from fleethook.cluster.kubernetes.kubernetes_source import KubernetesSource
from fleethook.cluster.kubernetes.resources import DEFINITIONS, YURT_APP_SETS, WatchedResource
from fleethook.cluster.store import ObjectKey, Store
from fleethook.lifetime import run_in_background
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP, YURT_APP_SET
from tests.builders import entry, yurt_app_set
from tests.e2e.cluster import CRDS, Api, ControlPlane
from tests.e2e.installation import Installation
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.e2e.test_source_faults import config, until
from tests.waiting import NET, wait_for

DEFINITION = f"{CRDS}/{YURT_APP_SETS.name}"
ALPHA, BETA = "v1alpha1", "v1beta1"
# Pauses of 0.1, 0.2, 0.4, 0.8, 1.6 s until the version is served, and one list of each version.
MAX_LISTS = 12


class CountingConnection:
    """A connection that counts the lists of YurtAppSets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.lists = 0

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        self.lists += path.endswith("/yurtappsets")
        return await self._connection.request(method, path, **rest)

    def lines(self, path: str, **rest: Any) -> Any:
        return self._connection.lines(path, **rest)


class Definition:
    """The CustomResourceDefinition of YurtAppSets, whose versions a test changes."""

    def __init__(self, admin: Api, namespace: str) -> None:
        self._admin, self._namespace = admin, namespace
        (self._alpha,) = admin[DEFINITION]["spec"]["versions"]
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        self._beta = {"name": BETA, "schema": schema}
        self._made: list[str] = []

    def create(self, version: str, *names: str) -> None:
        for name in names:
            self._create(name, version)

    def _create(self, name: str, version: str) -> None:
        made = yurt_app_set(name)
        made["apiVersion"], made["metadata"] = f"{GROUP}/{version}", {"name": name}
        resource = YURT_APP_SETS._replace(version=version)
        wait_for(lambda: self._admin.call("POST", resource.in_namespace(self._namespace), made)[0] == 201)
        self._made.append(name)

    def add_beta(self) -> None:
        self._write({**self._alpha, "storage": False}, {**self._beta, "served": True, "storage": True})

    def withdraw_beta(self) -> None:
        self._write(self._alpha, {**self._beta, "served": False, "storage": False})

    def _write(self, *versions: dict[str, Any]) -> None:
        self._admin.merge(DEFINITION, {"spec": {"versions": versions}})

    def _delete(self, path: str) -> None:
        wait_for(lambda: self._admin.call("DELETE", path)[0] in (200, 404), what=f"{path} is deleted")

    def restore(self) -> None:
        # The apiserver could no longer read objects stored in v1beta1.
        self.withdraw_beta()
        alpha = YURT_APP_SETS._replace(version=ALPHA)
        for name in self._made:
            self._delete(alpha.in_namespace(self._namespace, name))
        self._admin.merge(f"{DEFINITION}/status", {"status": {"storedVersions": [ALPHA]}})
        self._write(self._alpha)
        wait_for(lambda: self._admin.call("GET", alpha.path)[0] == 200)


@pytest.fixture
def definition(crds: None, admin: Api, namespace: str) -> Iterator[Definition]:
    made = Definition(admin, namespace)
    try:
        yield made
    finally:
        made.restore()


@contextlib.asynccontextmanager
async def follow_resources(
    plane: ControlPlane, store: Store, *resources: WatchedResource
) -> AsyncIterator[CountingConnection]:
    async with Connection(config(plane, "versions", plane.port)) as connection:
        counting = CountingConnection(connection)
        source = KubernetesSource(resources, counting, store, absent_seconds=3600.0)
        async with run_in_background(source.run(), name="source", ended=pytest.fail):
            await asyncio.wait_for(source.wait_synced(), NET)
            yield counting


async def test_a_version_that_is_added_and_withdrawn_is_followed(
    plane: ControlPlane,
    namespace: str,
    definition: Definition,
) -> None:
    store, emptied = Store(), list[ObjectKey]()

    def read() -> dict[str, str]:
        found = (one for one in store.each("", YURT_APP_SET) if one["metadata"]["namespace"] == namespace)
        return {one["metadata"]["name"]: one["apiVersion"].removeprefix(f"{GROUP}/") for one in found}

    def note(key: ObjectKey, before: JSONObject | None, after: JSONObject | None) -> None:
        if key.group_kind == YURT_APP_SET and before is not None and after is None:
            emptied.append(key)

    await asyncio.to_thread(definition.create, ALPHA, "a", "b")
    async with follow_resources(plane, store, DEFINITIONS, YURT_APP_SETS) as connection:
        store.subscribe(note)
        await until(lambda: read() == {"a": ALPHA, "b": ALPHA}, what="v1alpha1 is read")

        before = connection.lists
        await asyncio.to_thread(definition.add_beta)
        await until(lambda: read() == {"a": BETA, "b": BETA}, what="v1beta1 is read")
        assert connection.lists - before <= MAX_LISTS
        await asyncio.to_thread(definition.create, BETA, "c")
        await until(lambda: read() == {"a": BETA, "b": BETA, "c": BETA}, what="v1beta1 is watched")

        before = connection.lists
        await asyncio.to_thread(definition.withdraw_beta)
        await until(lambda: read() == {"a": ALPHA, "b": ALPHA, "c": ALPHA}, what="v1alpha1 is read again")
        assert connection.lists - before <= MAX_LISTS
        await asyncio.to_thread(definition.create, ALPHA, "d")
        await until(lambda: read().get("d") == ALPHA, what="v1alpha1 is watched again")
    assert emptied == []


def test_an_upgrade_and_a_downgrade_beside_a_running_server_revert_no_workload(
    installation: Installation, admin: Api, namespace: str, definition: Definition
) -> None:
    with installation.up():
        subject = Subject(admin, namespace, ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1")
        before = subject.versions()
        definition.add_beta()
        # Its workload has an owner reference of v1alpha1, as after an upgrade of OpenYurt.
        wait_for(lambda: subject.condition("Rendered")[1] == "OwnedByOtherVersion", what="v1beta1 is read")
        assert subject.versions() == before
        definition.withdraw_beta()
        wait_for(lambda: subject.status().get("summary") == "1/1", what="v1alpha1 is read again")
        assert subject.versions() == before
        subject.override(entry("*", items=TO_3))
        wait_for(lambda: subject.images() == {"hangzhou": "nginx:3.0"})
