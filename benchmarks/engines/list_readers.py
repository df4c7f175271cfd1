"""Reading all Deployments of an apiserver: `python -m benchmarks.engines.list_readers typed|whole|narrow KUBECONFIG`.

Each reader runs in its own process, so that its memory can be measured; it prints a line of JSON as cmd/informer does.
"""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from app.model.gvk import GroupKind

KIND = GroupKind("apps", "Deployment")
READERS = {
    "whole": "fleethook, whole objects",
    "narrow": "fleethook, as rendering keeps them",
    "typed": "kubernetes-asyncio, typed list",
}


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _build_report(count: int, before: int, started: float, processed: float) -> dict[str, float]:
    seconds, cpu = time.perf_counter() - started, time.process_time() - processed
    return {"count": count, "seconds": seconds, "cpu": cpu, "bytes": (_resident() - before) / count}


async def _read_typed(kubeconfig: Path) -> dict[str, float]:
    """Read the list as users of kubernetes-asyncio do: pages of 500, typed models; it has no informer."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - the other readers do not need it

    configuration = client.Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        apps = client.AppsV1Api(api)
        before, started, processed = _resident(), time.perf_counter(), time.process_time()
        items: list[Any] = []
        token = None
        while token != "":
            page = await apps.list_deployment_for_all_namespaces(limit=500, _continue=token)
            items += page.items
            token = page.metadata._continue or ""  # noqa: SLF001 - its name for `continue`
        return _build_report(len(items), before, started, processed)


async def _read_with_fleethook(kubeconfig: Path, *, narrow: bool) -> dict[str, float]:
    """Read the list as the server does at its start."""
    from app.kube.connection import Connection  # noqa: PLC0415 - it imports kubernetes-asyncio, whose memory counts
    from app.lifetime import run_in_background  # noqa: PLC0415
    from app.store import Store  # noqa: PLC0415
    from app.store import store as store_module  # noqa: PLC0415
    from app.store.sources.kubernetes.resources import WatchedResource, decode_metadata, decode_object  # noqa: PLC0415
    from app.store.sources.kubernetes.source import KubernetesSource  # noqa: PLC0415

    if not narrow:
        store_module.PARTIAL_KINDS = frozenset()  # type: ignore[misc]
    resource = WatchedResource("apps", "v1", "deployments", "Deployment", decode_metadata if narrow else decode_object)
    store = Store()
    async with Connection(kubeconfig) as connection:
        source = KubernetesSource([resource], connection, store, absent_seconds=10)
        before, started, processed = _resident(), time.perf_counter(), time.process_time()
        gc.disable()
        async with run_in_background(source.run(), name="source", ended=sys.exit):
            await source.wait_synced()
            return _build_report(store.counts()[KIND], before, started, processed)


if __name__ == "__main__":
    _, mode, path = sys.argv
    print(
        json.dumps(
            asyncio.run(
                _read_typed(Path(path))
                if mode == "typed"
                else _read_with_fleethook(Path(path), narrow=mode == "narrow")
            )
        )
    )
