"""The overriders page of the console on a real kube-apiserver: stored workloads, drift, and the effect of an edit."""

import contextlib
import html
import http.client
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.e2e.cluster import Api
from tests.e2e.conftest import kubectl
from tests.serving import started
from tests.waiting import NET, wait_for

OPENYURT = "/apis/apps.openyurt.io/v1alpha1/namespaces"
Send = Callable[..., tuple[int, str]]


@pytest.fixture
def send(kubeconfig: Path, tmp_path: Path) -> Iterator[Send]:
    """A function that requests a page of a console of the cluster, and keeps its cookie."""
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
    cookies: dict[str, str] = {}
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):

        def request(path: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
            headers = {"content-type": "application/x-www-form-urlencoded", **cookies}
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=NET)) as connection:
                connection.request("GET" if fields is None else "POST", path, fields and urlencode(fields), headers)
                response = connection.getresponse()
                if cookie := response.getheader("set-cookie"):
                    cookies["cookie"] = cookie.partition(";")[0]
                return response.status, html.unescape(response.read().decode())

        yield request


def in_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return an object as a client creates it in a namespace."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "uid"}
    return {**document, "metadata": {**metadata, "namespace": namespace}}


def test_stored_workloads_that_would_roll_and_the_effect_of_an_edit(
    admin: Api, namespace: str, send: Send, binaries: Path, kubeconfig: Path
) -> None:
    subject = admin.create(f"{OPENYURT}/{namespace}/yurtappsets", in_namespace(yurt_app_set(), namespace))
    one = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
    admin.create(f"{OPENYURT}/{namespace}/yurtappoverriders", in_namespace(one, namespace))
    for pool in ("hangzhou", "beijing"):
        running = in_namespace(workload(pool=pool), namespace)
        running["metadata"]["ownerReferences"][0]["uid"] = subject["metadata"]["uid"]
        admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", running)
    matrix = f"/overriders?subject={namespace}/demo&layout=list"
    wait_for(lambda: "replaces 2 pods" in send(matrix)[1], what="the drift of the Deployment in hangzhou is shown")
    assert re.findall(r'<td[^>]*><span class="state state-(\w+)">', send(matrix)[1]) == ["unchanged", "rolls"]
    address = f"/overriders/edit?namespace={namespace}&name=demo1"
    status, page = send(address)
    assert status == 200
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    assert token is not None
    assert text is not None
    assert "resourceVersion" not in text[1]
    edited = text[1].replace("- hangzhou", "- beijing")
    assert edited != text[1]

    def post_edit() -> str:
        status, answer = send(address, {"csrf_token": token[1], "text": edited})
        assert status == 200
        return answer

    # The matrix does not show whether the console knows the Deployment in beijing: it has no drift.
    effect = "The edit rolls 1 of 2 workloads, 2 pods."
    wait_for(lambda: effect in post_edit(), what="the console knows both Deployments")
    answer = post_edit()
    command = re.search(r"kubectl apply -f - <<'EOF'\n(.*?)EOF\n", answer, re.DOTALL)
    assert command is not None
    kubectl(
        binaries,
        kubeconfig,
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "-f",
        "-",
        stdin=command[1],
    )
