"""A store that follows an apiserver through a proxy, and what goes wrong between them, with writes during it."""

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
from tests.e2e.proxy import Proxy, proxied

KIND = GroupKind("apps", "Deployment")
DEPLOYMENTS = "/apis/apps/v1/namespaces/bench/deployments"


class Recovery(NamedTuple):
    """What came of one kind of fault: seconds for each, lists that were read anew, objects that were wrong."""

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
        """Change, delete and create."""
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
        """Return the seconds from the end of a fault until a write of then is seen, and how many objects are wrong then."""
        started = time.perf_counter()
        last = await asyncio.to_thread(self._admin.merge, f"{DEPLOYMENTS}/demo-0", {"spec": {"replicas": self._writes}})
        await asyncio.wait_for(self.informer.wait_for(int(last["metadata"]["resourceVersion"])), 120)
        seconds = time.perf_counter() - started
        truth, held = await asyncio.to_thread(self._truth), self._held()
        return seconds, len(set(truth.items()) ^ set(held.items()))

    async def cut(self) -> None:
        await asyncio.to_thread(self._write)
        self._proxy.cut()

    async def killed(self) -> None:
        await asyncio.to_thread(self._write)
        await asyncio.to_thread(self._plane.kill, "kube-apiserver")
        await asyncio.to_thread(self._plane.start_apiserver)

    async def compacted(self) -> None:
        await self._proxy.refuse()

        def meanwhile() -> None:
            self._write()
            self._plane.compact()
            self._plane.kill("kube-apiserver")
            self._plane.start_apiserver()

        await asyncio.to_thread(meanwhile)
        await self._proxy.listen()


async def recoveries(plane: ControlPlane, count: int) -> list[Recovery]:
    """Let each kind of fault happen so many times."""
    resource = WatchedResource("apps", "v1", "deployments", "Deployment", decode_metadata)
    store = Store()
    async with proxied(plane.port) as proxy, Connection(kubeconfig(plane, proxy.port)) as connection:
        source = KubernetesSource([resource], connection, store, absent_seconds=10)
        async with run_in_background(source.run(), name="source", ended=sys.exit):
            await source.wait_synced()
            faults = _Faults(plane, plane.api(), proxy, source.informer(KIND), store)
            return [
                await _recovery(faults, title, fault, count)
                for title, fault in (
                    ("watch connections cut", faults.cut),
                    ("apiserver killed and restarted", faults.killed),
                    ("apiserver away, history compacted (410 Gone)", faults.compacted),
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
