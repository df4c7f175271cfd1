"""The Kubernetes source on a real apiserver: how long 20,000 objects take and what they weigh, and what faults cost.

    python benchmarks/cluster.py [--objects 20000] [--rounds 3]

Needs the control plane of the end-to-end tests (make controlplane). Each reading of the list is a process of its own,
in turns with its peer, so that memory is its own and the machine's state is the same for both.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from app.kube.connection import Connection
from app.lifetime import running
from app.model.gvk import GroupKind
from app.store import Store
from app.store import store as store_module
from app.store.sources.kubernetes.informer import Informer
from app.store.sources.kubernetes.resources import WatchedResource, metadata_only, whole
from app.store.sources.kubernetes.source import KubernetesSource
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.controlplane import build
from tests.e2e.proxy import Proxy, proxied

KIND = GroupKind("apps", "Deployment")
READERS = {
    "typed": "kubernetes-asyncio, typed list",
    "whole": "fleethook, whole objects",
    "narrow": "fleethook, as rendering keeps them",
}
FAULTS = 5


def deployment(number: int) -> dict[str, Any]:
    """A Deployment of ordinary size, as a pool's workload is."""
    labels = {"app": f"demo-{number % 50}", "apps.openyurt.io/pool-name": f"pool-{number % 200}"}
    container = {
        "name": "main",
        "image": f"registry.example.com/demo:{number}",
        "env": [{"name": f"SETTING_{index}", "value": f"value {index} of {number}"} for index in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "ports": [{"containerPort": 8080, "name": "http"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"demo-{number}", "namespace": "bench", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def read_typed(kubeconfig: Path) -> dict[str, float]:
    """Read the list as kubernetes-asyncio's users do: pages of 500, its typed models."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - the other readers do without it

    configuration = client.Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        apps = client.AppsV1Api(api)
        before, started, processed = resident(), time.perf_counter(), time.process_time()
        items: list[Any] = []
        token = None
        while token != "":
            page = await apps.list_deployment_for_all_namespaces(limit=500, _continue=token)
            items += page.items
            token = page.metadata._continue or ""  # noqa: SLF001 - its name for `continue`
        return measured(len(items), before, started, processed)


def measured(count: int, before: int, started: float, processed: float) -> dict[str, float]:
    seconds, cpu = time.perf_counter() - started, time.process_time() - processed
    return {"count": count, "seconds": seconds, "cpu": cpu, "bytes": (resident() - before) / count}


async def read_ours(kubeconfig: Path, *, narrow: bool) -> dict[str, float]:
    """Read the list as the server does at its start."""
    if not narrow:
        store_module.NARROW_KINDS = frozenset()  # type: ignore[misc]
    resource = WatchedResource("apps", "v1", "deployments", "Deployment", metadata_only if narrow else whole)
    store = Store()
    async with Connection(kubeconfig) as connection:
        source = KubernetesSource([resource], connection, store, absent_seconds=10)
        before, started, processed = resident(), time.perf_counter(), time.process_time()
        gc.disable()
        async with running(source.run(), name="source", ended=sys.exit):
            await source.wait_synced()
            return measured(store.counts()[KIND], before, started, processed)


def read(mode: str, kubeconfig: Path) -> dict[str, float]:
    work = read_typed(kubeconfig) if mode == "typed" else read_ours(kubeconfig, narrow=mode == "narrow")
    return asyncio.run(work)


async def fill(kubeconfig: Path, count: int) -> None:
    numbers = iter(range(count))
    async with Connection(kubeconfig) as connection:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await connection.request("POST", "/api/v1/namespaces", body=namespace)

        async def create() -> None:
            for number in numbers:
                await connection.request("POST", "/apis/apps/v1/namespaces/bench/deployments", body=deployment(number))

        await asyncio.gather(*(create() for _ in range(32)))


def sync_table(kubeconfig: Path, rounds: int) -> None:
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in READERS}
    for _ in range(rounds):
        for mode in READERS:
            command = [sys.executable, __file__, "--read", mode, "--kubeconfig", str(kubeconfig)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[mode].append(json.loads(output))
    base = {member: statistics.median(run[member] for run in found["typed"]) for member in ("seconds", "cpu", "bytes")}
    count = int(found["typed"][0]["count"])
    print(f"\n| {count:,} Deployments | time to sync | CPU of the reader | memory per object |")
    print("|---|---|---|---|")
    for mode, title in READERS.items():
        assert {run["count"] for run in found[mode]} == {count}
        cells = []
        for member, unit, scale in (("seconds", "s", 1.0), ("cpu", "s", 1.0), ("bytes", "KB", 1e-3)):
            value = statistics.median(run[member] for run in found[mode])
            cells.append(f"{value * scale:.1f} {unit} ({base[member] / value:.1f}x)")
        print(f"| {title} | {' | '.join(cells)} |")


class Faults:
    """A store that follows through a proxy, and an apiserver that fails."""

    def __init__(self, plane: ControlPlane, admin: Api, proxy: Proxy, informer: Informer, store: Store) -> None:
        self.plane, self.admin, self.proxy, self.informer, self.store = plane, admin, proxy, informer, store
        self._writes = 0

    def write(self) -> None:
        """Change, delete and create."""
        for _ in range(10):
            self._writes += 1
            number = self._writes
            path = f"/apis/apps/v1/namespaces/bench/deployments/demo-{number}"
            self.admin.merge(path, {"spec": {"replicas": 3}})
            self.admin.delete(path)
            self.admin.create("/apis/apps/v1/namespaces/bench/deployments", deployment(10_000_000 + number))

    def truth(self) -> dict[str, str]:
        items, token = {}, ""
        while True:
            page = self.admin[f"/apis/apps/v1/deployments?limit=500&continue={token}"]
            items |= {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in page["items"]}
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    def held(self) -> dict[str, str]:
        return {key.name: self.store.get(*key).resource_version for key in self.store.keys(KIND)}

    async def recover(self) -> tuple[float, int]:
        """Return the seconds from the end of a fault until a write of then is seen, and how many objects are wrong then."""
        started = time.perf_counter()
        last = await asyncio.to_thread(
            self.admin.merge, "/apis/apps/v1/namespaces/bench/deployments/demo-0", {"spec": {"replicas": self._writes}}
        )
        await asyncio.wait_for(self.informer.wait_for(int(last["metadata"]["resourceVersion"])), 120)
        seconds = time.perf_counter() - started
        truth, held = await asyncio.to_thread(self.truth), self.held()
        return seconds, len(set(truth.items()) ^ set(held.items()))

    async def cut(self) -> None:
        await asyncio.to_thread(self.write)
        self.proxy.cut()

    async def killed(self) -> None:
        await asyncio.to_thread(self.write)
        await asyncio.to_thread(self.plane.kill, "kube-apiserver")
        await asyncio.to_thread(self.plane.start_apiserver)

    async def compacted(self) -> None:
        await self.proxy.refuse()

        def meanwhile() -> None:
            self.write()
            self.plane.compact()
            self.plane.kill("kube-apiserver")
            self.plane.start_apiserver()

        await asyncio.to_thread(meanwhile)
        await self.proxy.listen()


async def fault_table(plane: ControlPlane, kubeconfig: Callable[[int], Path]) -> None:
    resource = WatchedResource("apps", "v1", "deployments", "Deployment", metadata_only)
    store = Store()
    print("\n| Fault, with writes during it | times | lists read | time to recover | lost or wrong objects |")
    print("|---|---|---|---|---|")
    async with proxied(plane.port) as proxy, Connection(kubeconfig(proxy.port)) as connection:
        source = KubernetesSource([resource], connection, store, absent_seconds=10)
        async with running(source.run(), name="source", ended=sys.exit):
            await source.wait_synced()
            faults = Faults(plane, plane.api(), proxy, source.informer(KIND), store)
            for title, fault in (
                ("watch connections cut", faults.cut),
                ("apiserver killed and restarted", faults.killed),
                ("apiserver away, history compacted (410 Gone)", faults.compacted),
            ):
                before, times, wrong = faults.informer.relists, [], 0
                for _ in range(FAULTS):
                    await fault()
                    seconds, differing = await faults.recover()
                    times.append(seconds)
                    wrong += differing
                lists = faults.informer.relists - before
                spread = f"{statistics.median(times):.2f} s ({min(times):.2f}-{max(times):.2f})"
                print(f"| {title} | {FAULTS} | {lists} | {spread} | {wrong} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.read, given.kubeconfig)))
        return
    binaries = build.find()
    if binaries is None:
        sys.exit("there is no control plane; make controlplane builds one")
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane(binaries, Path(directory)))
        user = {"client-certificate": str(plane.admin.certificate), "client-key": str(plane.admin.key)}

        def kubeconfig(port: int) -> Path:
            return plane.kubeconfig(f"bench-{port}", user, server=f"https://127.0.0.1:{port}")

        started = time.perf_counter()
        asyncio.run(fill(kubeconfig(plane.port), given.objects))
        print(f"{given.objects:,} Deployments made in {time.perf_counter() - started:.0f} s")
        sync_table(kubeconfig(plane.port), given.rounds)
        asyncio.run(fault_table(plane, kubeconfig))


if __name__ == "__main__":
    main()
