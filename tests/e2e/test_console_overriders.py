"""The overriders page of the console on a real kube-apiserver: stored workloads, drift, and the stored overrider."""

import contextlib
import html
import http.client
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.e2e.cluster import Api
from tests.serving import started
from tests.waiting import NET, wait_for

OPENYURT = "/apis/apps.openyurt.io/v1alpha1/namespaces"
Send = Callable[..., tuple[int, str]]


@pytest.fixture
def send(kubeconfig: Path, tmp_path: Path) -> Iterator[Send]:
    """A function that requests a page of a console of the cluster."""
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

        def request(path: str) -> tuple[int, str]:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
                connection.request("GET", path)
                response = connection.getresponse()
                return response.status, html.unescape(response.read().decode())

        yield request


def in_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return an object as a client creates it in a namespace."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "uid"}
    return {**document, "metadata": {**metadata, "namespace": namespace}}


def test_stored_workloads_that_would_roll_and_their_overrider(admin: Api, namespace: str, send: Send) -> None:
    subject = admin.create(f"{OPENYURT}/{namespace}/yurtappsets", in_namespace(yurt_app_set(), namespace))
    one = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
    admin.create(f"{OPENYURT}/{namespace}/yurtappoverriders", in_namespace(one, namespace))
    for pool in ("hangzhou", "beijing"):
        running = in_namespace(workload(pool=pool), namespace)
        running["metadata"]["ownerReferences"][0]["uid"] = subject["metadata"]["uid"]
        admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", running)
    matrix = f"/overriders?subject={namespace}/demo"
    wait_for(lambda: "replaces 2 pods" in send(matrix)[1], what="the drift of the Deployment in hangzhou is shown")
    assert re.findall(r'<a class="cell (\w+)', send(matrix)[1]) == ["unchanged", "rolls"]
    status, page = send(f"/overriders/overrider?namespace={namespace}&name=demo1")
    assert status == 200
    assert "nginx:2.0" in page
