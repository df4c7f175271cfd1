"""A store follows an apiserver through a proxy; faults interrupt the connection while objects are written."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from app.kube.connection import Connection
from app.lifetime import run_in_background
from app.model.gvk import GroupKind
from app.store import Store
from app.store.sources.kubernetes.informer import Informer
from app.store.sources.kubernetes.resources import WatchedResource, decode_metadata
from app.store.sources.kubernetes.source import KubernetesSource
from benchmarks.engines.deployments import deployment, kubeconfig
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.proxy import Proxy, run_proxy

KIND = GroupKind("apps", "Deployment")
DEPLOYMENTS = "/apis/apps/v1/namespaces/bench/deployments"


class Recovery(NamedTuple):
    """The results for one kind of fault: seconds of each recovery, repeated lists, wrong objects."""

    title: str
    seconds: list[float]
    lists: int
    wrong: int


class _Faults:
    def __init__(self, plane: ControlPlane, admin: Api, proxy: Proxy, informer: Informer, store: Store) -> None:
        self._plane, self._admin, self._proxy, self._store = plane, admin, proxy, store
        self.informer = informer
        self._writes = 0

    def _write(self) -> None:
        """Change, delete and create objects."""
        for _ in range(10):
            self._writes += 1
            path = f"{DEPLOYMENTS}/demo-{self._writes}"
            self._admin.merge(path, {"spec": {"replicas": 3}})
            self._admin.delete(path)
            self._admin.create(DEPLOYMENTS, deployment(10_000_000 + self._writes))

    def _truth(self) -> dict[str, str]:
        items, token = {}, ""
        while True:
            page = self._admin[f"/apis/apps/v1/deployments?limit=500&continue={token}"]
            items |= {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in page["items"]}
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    def _held(self) -> dict[str, str]:
        return {key.name: self._store.get(*key).resource_version for key in self._store.keys(KIND)}

    async def recover(self) -> tuple[float, int]:
        """Return the seconds until the store has a write made at the end of the fault, and the number of wrong objects then."""
        started = time.perf_counter()
        last = await asyncio.to_thread(self._admin.merge, f"{DEPLOYMENTS}/demo-0", {"spec": {"replicas": self._writes}})
        await asyncio.wait_for(self.informer.wait_for(int(last["metadata"]["resourceVersion"])), 120)
        seconds = time.perf_counter() - started
        truth, held = await asyncio.to_thread(self._truth), self._held()
        return seconds, len(set(truth.items()) ^ set(held.items()))

    async def cut(self) -> None:
        await asyncio.to_thread(self._write)
        self._proxy.cut()

    async def kill_apiserver(self) -> None:
        await asyncio.to_thread(self._write)
        await asyncio.to_thread(self._plane.kill, "kube-apiserver")
        await asyncio.to_thread(self._plane.start_apiserver)

    async def compact_history(self) -> None:
        await self._proxy.refuse()

        def meanwhile() -> None:
            self._write()
            self._plane.compact()
            self._plane.kill("kube-apiserver")
            self._plane.start_apiserver()

        await asyncio.to_thread(meanwhile)
        await self._proxy.listen()


async def recoveries(plane: ControlPlane, count: int) -> list[Recovery]:
    """Inject each kind of fault ``count`` times."""
    resource = WatchedResource("apps", "v1", "deployments", "Deployment", decode_metadata)
    store = Store()
    async with run_proxy(plane.port) as proxy, Connection(kubeconfig(plane, proxy.port)) as connection:
        source = KubernetesSource([resource], connection, store, absent_seconds=10)
        async with run_in_background(source.run(), name="source", ended=sys.exit):
            await source.wait_synced()
            faults = _Faults(plane, plane.api(), proxy, source.informer(KIND), store)
            return [
                await _recovery(faults, title, fault, count)
                for title, fault in (
                    ("watch connections cut", faults.cut),
                    ("apiserver killed and restarted", faults.kill_apiserver),
                    ("apiserver away, history compacted (410 Gone)", faults.compact_history),
                )
            ]


async def _recovery(faults: _Faults, title: str, fault: Callable[[], Awaitable[None]], count: int) -> Recovery:
    before, seconds, wrong = faults.informer.relists, [], 0
    for _ in range(count):
        await fault()
        spent, differing = await faults.recover()
        seconds.append(spent)
        wrong += differing
    return Recovery(title, seconds, faults.informer.relists - before, wrong)
