"""The console on a real kube-apiserver."""

import asyncio
import contextlib
import http.client
import re
import sys
from pathlib import Path

from fleethook.cluster.connection import Connection
from fleethook.cluster.leader_election import LeaderElector, LeaseName
from tests.builders import yurt_app_set
from tests.e2e.cluster import Api
from tests.serving import started
from tests.waiting import NET, wait_for


def get(port: int, path: str) -> str:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def test_the_console_follows_a_cluster(admin: Api, kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    path = f"/apis/apps.openyurt.io/v1alpha1/namespaces/{namespace}/yurtappsets"
    document = yurt_app_set("before")
    document["metadata"] = {"name": "before", "namespace": namespace}
    admin.create(path, document)
    command = [
        sys.executable,
        "-m",
        "fleethook",
        "console",
        "--no-token",
        "--kubeconfig",
        str(kubeconfig),
        "--port",
        "0",
    ]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):
        query = f"/overriders?subject={namespace}/"
        wait_for(lambda: "before" in get(port, query), what="the first list is shown")
        admin.create(path, {**document, "metadata": {"name": "after", "namespace": namespace}})
        wait_for(lambda: "after" in get(port, query), what="the new object is shown")
        assert "deployments.apps" in get(port, "/")


async def lead(kubeconfig: Path, lease: LeaseName, identity: str) -> None:
    """Hold a Lease as a server does, until cancelled."""
    async with Connection(kubeconfig) as connection:
        await LeaderElector(connection, lease, identity).run(asyncio.Event().wait)  # type: ignore[arg-type]


async def test_the_console_shows_the_leader_of_a_server(kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fleethook",
        "console",
        "--no-token",
        "--kubeconfig",
        str(kubeconfig),
        "--port",
        "0",
    ]
    command += ["--namespace", namespace]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):

        async def wait_for_text(text: str) -> None:
            def shows() -> bool:
                return text in " ".join(re.sub(r"<[^>]*>", " ", get(port, "/")).split())

            await asyncio.to_thread(wait_for, shows, what=text)

        await wait_for_text("There is no Lease fleethook")
        leading = asyncio.create_task(lead(kubeconfig, LeaseName(namespace, "fleethook"), "server-0_ab"))
        await wait_for_text("State leads Replica server-0_ab")
        leading.cancel()
        await asyncio.wait([leading])
        await wait_for_text("State released Replica none")
