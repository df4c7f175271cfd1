"""``fleethook convert`` with the objects of a cluster."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.builders import entry, image, node_pool, overrider, workload, yurt_app_set
from tests.cli.converting import convert, read_levels


class Cluster:
    """An apiserver that lists one object per page."""

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.queries: dict[str, dict[str, str]] = {}
        self.forbidden = ""

    def answer(self, url: str) -> tuple[int, Any]:
        path, query = urlsplit(url).path, {name: one[0] for name, one in parse_qs(urlsplit(url).query).items()}
        self.queries[path] = query
        if self.forbidden and self.forbidden in path:
            return 403, {"kind": "Status", "reason": "Forbidden", "message": f"{self.forbidden} is forbidden"}
        if path not in self.lists:
            return 404, {"kind": "Status", "reason": "NotFound", "message": "not found"}
        at, items = int(query.get("continue", "0")), self.lists[path]
        further = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        # The items of a list have neither apiVersion nor kind.
        page = [
            {name: value for name, value in one.items() if name not in ("apiVersion", "kind")}
            for one in items[at : at + 1]
        ]
        return 200, {"metadata": further, "items": page}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    held = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = held.answer(self.path)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    named = {
        "clusters": [{"name": "right", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "user", "user": {"token": "t"}}],
        "contexts": [{"name": "right", "context": {"cluster": "right", "user": "user"}}],
    }
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **named}))
    yield held, ("--kubeconfig", str(config), "--context", "right")
    server.shutdown()
    thread.join()
    server.server_close()


YURT = "/apis/apps.openyurt.io"


ALPHA, BETA = f"{YURT}/v1alpha1", f"{YURT}/v1beta1"


def test_subjects_and_overriders_of_a_cluster_are_converted(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists = {
        f"{ALPHA}/yurtappsets": [yurt_app_set("a"), yurt_app_set("demo")],
        f"{ALPHA}/yurtappoverriders": [overrider(entry("*", items=[image("nginx", "nginx:2")]))],
        f"{YURT}/v1beta2/nodepools": [node_pool("hangzhou"), node_pool("beijing")],
    }
    result = convert(*options)
    assert result.returncode == 0, result.stderr
    made = {one["metadata"]["name"]: one["spec"]["workload"] for one in yaml.safe_load_all(result.stdout)}
    assert [len(made[name]["workloadTweaks"]) for name in ("a", "demo")] == [1, 2]
    assert set(read_levels(result)) == {"warning"}
    assert "cluster: warning: YurtAppSet default/a: spec.topology.pools[0]: node pool hangzhou: " in result.stderr


def test_files_are_converted_with_the_node_pools_of_the_cluster(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists = {f"{YURT}/v1beta1/nodepools": [node_pool("hangzhou"), node_pool("beijing")]}
    result = convert(*options, "-f", "-", stdin=yaml.safe_dump(yurt_app_set()))
    assert result.returncode == 0, result.stderr
    assert "no NodePools" not in result.stderr


def test_orphans_of_an_upgrade_are_reported(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    upgraded = {"pools": ["hangzhou"], "workload": {"workloadTemplate": {"deploymentTemplate": {"spec": {}}}}}
    held.lists = {
        f"{BETA}/yurtappsets": [{**yurt_app_set(), "spec": upgraded}],
        f"{YURT}/v1beta2/nodepools": [node_pool("hangzhou"), node_pool("beijing")],
        "/apis/apps/v1/deployments": [workload(owners=[]), workload(pool="beijing")],
        "/apis/apps/v1/statefulsets": [],
    }
    result = convert(*options, "-o", "json")
    assert result.returncode == 0, result.stderr
    rows = [(row["code"], row["kind"], row["name"], row["pools"]) for row in json.loads(result.stdout)["report"]]
    assert rows == [
        ("orphan", "Deployment", "demo-hangzhou-x", ["hangzhou"]),
        ("orphan", "Deployment", "demo-beijing-x", ["beijing"]),
    ]
    assert held.queries["/apis/apps/v1/deployments"]["labelSelector"] == "apps.openyurt.io/pool-name"


def test_a_cluster_that_forbids_reading_exits_2(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    held, options = cluster
    held.lists, held.forbidden = {f"{BETA}/yurtappsets": []}, "yurtappdaemons"
    result = convert(*options)
    assert (result.returncode, result.stdout) == (2, "")
    assert "fleethook: cannot read the cluster: " in result.stderr
    assert "yurtappdaemons is forbidden" in result.stderr
