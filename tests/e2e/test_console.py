"""The console on a real kube-apiserver: it follows the cluster, and shows the leader, drift, and a stored overrider."""

import asyncio
import contextlib
import html
import http.client
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.leader_election import LeaderElector, LeaseName
from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.e2e.cluster import Api
from tests.serving import started
from tests.waiting import NET, wait_for

OPENYURT = "/apis/apps.openyurt.io/v1alpha1/namespaces"
Get = Callable[[str], str]


@pytest.fixture
def get(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Get]:
    """A function that returns a page of a console of the cluster, whose server has its Lease in the namespace."""
    command = [sys.executable, "-m", "fleethook", "console", "--no-token", "--port", "0"]
    command += ["--kubeconfig", str(kubeconfig), "--namespace", namespace]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):

        def request(path: str) -> str:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
                connection.request("GET", path)
                return html.unescape(connection.getresponse().read().decode())

        yield request


def in_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return an object as a client creates it in a namespace."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "uid"}
    return {**document, "metadata": {**metadata, "namespace": namespace}}


async def lead(kubeconfig: Path, lease: LeaseName, identity: str) -> None:
    """Hold a Lease as a server does, until cancelled."""
    async with Connection(kubeconfig) as connection:
        await LeaderElector(connection, lease, identity).run(asyncio.Event().wait)  # type: ignore[arg-type]


async def test_the_console_shows_the_leader_of_a_server(kubeconfig: Path, namespace: str, get: Get) -> None:
    async def wait_for_text(text: str) -> None:
        def shows() -> bool:
            return text in " ".join(re.sub(r"<[^>]*>", " ", get("/")).split())

        await asyncio.to_thread(wait_for, shows, what=text)

    await wait_for_text("There is no Lease fleethook")
    leading = asyncio.create_task(lead(kubeconfig, LeaseName(namespace, "fleethook"), "server-0_ab"))
    await wait_for_text("State leads Replica server-0_ab")
    leading.cancel()
    await asyncio.wait([leading])
    await wait_for_text("State released Replica none")


def test_workloads_that_would_roll_are_shown_and_so_is_their_overrider(admin: Api, namespace: str, get: Get) -> None:
    subject = admin.create(f"{OPENYURT}/{namespace}/yurtappsets", in_namespace(yurt_app_set(), namespace))
    matrix = f"/overriders?subject={namespace}/demo"
    wait_for(lambda: "demo" in get(matrix), what="the new subject is shown")
    one = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
    admin.create(f"{OPENYURT}/{namespace}/yurtappoverriders", in_namespace(one, namespace))
    for pool in ("hangzhou", "beijing"):
        running = in_namespace(workload(pool=pool), namespace)
        running["metadata"]["ownerReferences"][0]["uid"] = subject["metadata"]["uid"]
        admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", running)
    wait_for(lambda: "replaces 2 pods" in get(matrix), what="the drift of the Deployment in hangzhou is shown")
    assert re.findall(r'<a class="cell (\w+)', get(matrix)) == ["unchanged", "rolls"]
    assert "nginx:2.0" in get(f"/overriders/overrider?namespace={namespace}&name=demo1")
