"""The Kubernetes source against a real apiserver that fails: afterwards the store equals a fresh list."""

import asyncio
import contextlib
import json
import random
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.informer_and_backoff import Informer
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import WatchedResource, decode_object
from fleethook.cluster.store import Store
from fleethook.model.gvk import GroupKind
from tests.e2e.chart import define
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.proxy import Proxy, run_proxy
from tests.waiting import NET, until

GROUP = "faults.example.com"
GADGETS = WatchedResource(GROUP, "v1", "gadgets", "Gadget", decode_object)
KIND = GroupKind(GROUP, "Gadget")


@pytest.fixture(scope="module", autouse=True)
def gadgets(admin: Api) -> None:
    define(admin, GROUP, "v1", "Gadget", scope="Namespaced")


@pytest.fixture(scope="module")
def direct(plane: ControlPlane) -> Path:
    return config(plane, "direct", plane.port)


def config(plane: ControlPlane, name: str, port: int) -> Path:
    return plane.kubeconfig(name, server=f"https://127.0.0.1:{port}")


def gadget(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def path(namespace: str, name: str = "") -> str:
    return GADGETS.in_namespace(namespace, name)


def truth(admin: Api) -> dict[tuple[str, str], str]:
    """Return a new list, which the store must equal."""
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for item in admin[GADGETS.path]["items"]
    }


def held(store: Store) -> dict[tuple[str, str], str]:
    return {(key.namespace, key.name): store.get(*key)["metadata"]["resourceVersion"] for key in store.keys(KIND)}


async def equal(admin: Api, store: Store) -> None:
    """Wait until the store equals a new list, and still equals the next one."""
    expected = await asyncio.to_thread(truth, admin)
    try:
        await until(lambda: held(store) == expected)
    except AssertionError:
        assert held(store) == expected


@contextlib.asynccontextmanager
async def follow_cluster(kubeconfig: Path, store: Store) -> AsyncIterator[Informer]:
    async with Connection(kubeconfig) as connection:
        source = KubernetesSource([GADGETS], connection, store, absent_seconds=0.2)
        async with run_in_background(source.run(), name="source", ended=pytest.fail):
            await asyncio.wait_for(source.wait_synced(), NET)
            yield source.informer(KIND)


def changes(admin: Api, namespace: str, count: int, *, seed: int) -> Iterator[None]:
    """Create, change and delete objects, one at a time."""
    rng = random.Random(seed)
    names: list[str] = []
    for number in range(count):
        action = rng.random()
        if action < 0.5 or not names:
            name = f"g{seed}-{number}"
            admin.create(path(namespace), gadget(namespace, name, number=number))
            names.append(name)
        elif action < 0.8:
            admin.merge(path(namespace, rng.choice(names)), {"spec": {"number": number}})
        else:
            admin.delete(path(namespace, names.pop(rng.randrange(len(names)))))
        yield


async def test_connections_that_are_cut_lose_nothing_and_need_no_new_list(
    plane: ControlPlane, admin: Api, namespace: str
) -> None:
    store = Store()
    async with run_proxy(plane.port) as proxy, follow_cluster(config(plane, "cut", proxy.port), store) as informer:
        writes = changes(admin, namespace, 60, seed=2)
        for _ in range(12):
            await asyncio.to_thread(lambda: [next(writes) for _ in range(5)])
            connections = proxy.accepted
            proxy.cut()
            await until(lambda connections=connections: proxy.accepted > connections, what="it reconnects")
        await equal(admin, store)
        assert informer.relists == 1


async def test_a_killed_and_restarted_apiserver_is_followed_again(
    plane: ControlPlane, direct: Path, admin: Api, namespace: str
) -> None:
    store = Store()
    async with follow_cluster(direct, store) as informer:
        await asyncio.to_thread(lambda: list(changes(admin, namespace, 10, seed=3)))
        await asyncio.to_thread(plane.kill, "kube-apiserver")
        await until(lambda: informer.state().failing, what="the state says that the apiserver is gone")
        before = held(store)
        assert before, "the last good state is kept"
        await asyncio.to_thread(plane.start_apiserver)
        await asyncio.to_thread(lambda: list(changes(admin, namespace, 10, seed=4)))
        await equal(admin, store)
        assert held(store) != before
        assert not informer.state().failing


async def test_history_compacted_away_is_listed_again_with_its_deletions(
    plane: ControlPlane, admin: Api, namespace: str
) -> None:
    store = Store()
    async with run_proxy(plane.port) as proxy, follow_cluster(config(plane, "gone", proxy.port), store) as informer:
        await asyncio.to_thread(lambda: admin.create(path(namespace), gadget(namespace, "doomed")))
        await equal(admin, store)
        await proxy.refuse()

        def meanwhile() -> None:
            admin.delete(path(namespace, "doomed"))
            list(changes(admin, namespace, 20, seed=5))
            plane.compact()
            # The apiserver caches recent changes; a new process knows only the revisions of etcd.
            plane.kill("kube-apiserver")
            plane.start_apiserver()

        await asyncio.to_thread(meanwhile)
        await proxy.listen()
        await equal(admin, store)
        assert (namespace, "doomed") not in held(store)
        assert informer.relists == 2


async def test_credentials_of_an_exec_plugin_are_asked_for_again_when_refused(
    plane: ControlPlane, admin: Api, crds: None, tmp_path: Path
) -> None:
    from tests.e2e.fleet import service_account, token  # noqa: PLC0415 - makes the account on use

    service_account(plane)
    current = tmp_path / "token"
    current.write_text("expired")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        f"#!{sys.executable}\nimport json\n"
        f"token = open({str(current)!r}).read()\n"
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}))\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user: Any = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never",
            "provideClusterInfo": False,
        }
    }  # fmt: skip
    async with Connection(plane.kubeconfig("exec", user)) as connection:
        current.write_text(token(admin))
        assert admin["/apis/apps.openyurt.io/v1alpha1/nodepools"]  # Served again after earlier tests.
        listed = json.loads(await connection.request("GET", "/apis/apps.openyurt.io/v1alpha1/nodepools"))
        assert listed["kind"] == "NodePoolList"
        current.write_text("expired again")
        with pytest.raises(APIError, match="403"):
            await connection.request("GET", "/api/v1/pods")


async def test_a_stalled_connection_is_noticed_and_replaced(
    plane: ControlPlane, admin: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open connection: no bytes arrive, no error is reported, and the apiserver's bookmarks are missing."""
    monkeypatch.setattr("fleethook.cluster.kubernetes.informer_and_backoff._IDLE_SECONDS", 1.0)
    store = Store()
    async with run_proxy(plane.port) as proxy, follow_cluster(config(plane, "stalled", proxy.port), store):
        stalled: Proxy = proxy
        stalled.stall()
        await asyncio.to_thread(lambda: admin.create(path(namespace), gadget(namespace, "unseen")))
        await until(lambda: stalled.accepted > 2, what="a new connection is tried")
        assert (namespace, "unseen") not in held(store)
        stalled.resume()
        await equal(admin, store)
