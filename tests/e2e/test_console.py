"""The console on a real kube-apiserver."""

import contextlib
import http.client
import sys
from pathlib import Path

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
    command = [sys.executable, "-m", "app", "console", "--kubeconfig", str(kubeconfig), "--port", "0"]
    with started(command, tmp_path / "log", r"console: http://127\.0\.0\.1:(\d+)/") as (_, port):
        query = f"/overriders?subject={namespace}/"
        wait_for(lambda: "before" in get(port, query), what="the first list is shown")
        admin.create(path, {**document, "metadata": {"name": "after", "namespace": namespace}})
        wait_for(lambda: "after" in get(port, query), what="the new object is shown")
        assert "deployments.apps" in get(port, "/")
