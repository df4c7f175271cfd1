"""A real apiserver with Deployments as large as the workloads of pools usually are."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleethook.cluster.apiserver_connection import Connection
from tests.e2e.cluster import ControlPlane, control_plane
from tests.e2e.controlplane import build

WRITERS = 32


class NoControlPlaneError(Exception):
    """The binaries of the end-to-end tests have not been built."""


def deployment(number: int) -> dict[str, Any]:
    """Return the Deployment of a number."""
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


@contextlib.contextmanager
def plane(directory: Path) -> Iterator[ControlPlane]:
    """Run an apiserver and its etcd; raises NoControlPlaneError."""
    binaries = build.find()
    if binaries is None:
        raise NoControlPlaneError
    directory.mkdir(exist_ok=True)
    with control_plane(binaries, directory) as running:
        yield running


def kubeconfig(running: ControlPlane, port: int) -> Path:
    """Return the administrator's kubeconfig for an apiserver behind a port."""
    return running.kubeconfig(f"bench-{port}", server=f"https://127.0.0.1:{port}")


async def fill(config: Path, count: int) -> None:
    """Create ``count`` Deployments."""
    numbers = iter(range(count))
    async with Connection(config) as connection:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await connection.request("POST", "/api/v1/namespaces", body=namespace)

        async def create() -> None:
            for number in numbers:
                await connection.request("POST", "/apis/apps/v1/namespaces/bench/deployments", body=deployment(number))

        await asyncio.gather(*(create() for _ in range(WRITERS)))
