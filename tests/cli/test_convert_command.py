import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.builders import entry, image, node_pool, overrider, pool, workload, yurt_app_set
from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET

STORIES = EXAMPLES / "yurtappoverrider"
NODE_POOLS = ("-f", str(EXAMPLES / "nodepools.yaml"))


def fleethook(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=NET,
        check=False,
        input=stdin,
    )


def convert(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return fleethook("convert", *arguments, stdin=stdin)


def levels(result: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line.split(": ")[1] for line in result.stderr.splitlines() if not line.startswith("fleethook: ")]


def containers(text: str) -> dict[tuple[str, str], Any]:
    """What `render` shows, by subject and pool: the parts that the stories are about."""
    shown = {}
    for row in json.loads(text):
        spec = row["workload"]["spec"]
        pods = spec["template"]["spec"]
        name = row["subject"].partition(" ")[2]
        # Go prints resources that a template does not have.
        own = [{member: value for member, value in one.items() if value != {}} for one in pods["containers"]]
        shown[name, row["pool"]] = (spec.get("replicas"), own, pods.get("volumes"), pods.get("tolerations"))
    return shown


@pytest.mark.parametrize("story", ["story-1", "story-2", "story-3", "story-4", "story-5"])
def test_a_story_is_converted_without_loss(story: str) -> None:
    files = (*NODE_POOLS, "-f", str(STORIES / story))
    result = convert(*files)
    assert result.returncode == 0, result.stderr
    assert "error" not in levels(result)
    made = list(yaml.safe_load_all(result.stdout))
    assert made
    assert {(one["apiVersion"], one["kind"]) for one in made} == {("apps.openyurt.io/v1beta1", "YurtAppSet")}
    before = fleethook("render", *files, "-o", "json")
    after = fleethook("render", *NODE_POOLS, "-f", "-", "-o", "json", stdin=result.stdout)
    assert (before.returncode, after.returncode) == (0, 0), after.stderr
    assert containers(before.stdout) == containers(after.stdout)


def test_a_converted_set_needs_no_node_pools_to_be_rendered() -> None:
    made = convert("-f", str(STORIES / "story-2"))
    assert levels(made) == ["warning"]
    after = fleethook("render", "-f", "-", "-o", "json", stdin=made.stdout)
    before = fleethook("render", "-f", str(STORIES / "story-2"), "-o", "json")
    assert containers(before.stdout) == containers(after.stdout)


def test_other_objects_are_left_out_and_the_order_is_kept() -> None:
    text = yaml.safe_dump_all(
        [yurt_app_set("second"), node_pool("hangzhou"), node_pool("beijing"), yurt_app_set("first")]
    )
    result = convert("-f", "-", stdin=text)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(result.stdout)] == ["second", "first"]


def test_yaml_has_no_anchors() -> None:
    rule = (STORIES / "story-5" / "overrider.yaml").read_text()
    result = convert(*NODE_POOLS, "-f", str(STORIES / "story-5" / "yurtappset.yaml"), "-f", "-", stdin=rule)
    assert "&id" not in result.stdout


BROKEN = overrider(
    entry("beijing", patches=[{"operation": "replace", "path": "/spec/template/spec/volumes/0", "value": {}}])
)
LOST = overrider(
    entry(
        "beijing",
        patches=[
            {
                "operation": "add",
                "path": "/spec/template/spec/containers/0/env",
                "value": [{"name": "A", "value": "{{nodepool-name}}"}],
            }
        ],
    )
)


def manifests(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump_all([*objects, node_pool("hangzhou"), node_pool("beijing")])


def test_a_loss_exits_1_and_names_line_entry_pool_and_path() -> None:
    result = convert("-f", "-", stdin=manifests(LOST, yurt_app_set()))
    assert result.returncode == 1
    lost = next(line for line in result.stderr.splitlines() if ": error: " in line)
    assert lost.startswith(
        "<stdin>:4: error: YurtAppOverrider default/demo1: entries[0].patches[0]: node pool beijing: "
        "/spec/template/spec/containers/0/env/0/value has the value"
    )
    assert result.stderr.endswith("fleethook: 1 error, 2 warnings\n")
    assert yaml.safe_load(result.stdout)["kind"] == "YurtAppSet", "what can be converted is still printed"


def test_diff_shows_the_differences_by_node_pool() -> None:
    result = convert("-f", "-", "-o", "diff", stdin=manifests(LOST, yurt_app_set(pools=[pool("beijing")])))
    lines = result.stdout.splitlines()
    assert lines[0] == "YurtAppSet default/demo, node pool beijing"
    at = next(number for number, line in enumerate(lines) if "/env/0/value" in line)
    assert "# entries[0].patches[0]: " in lines[at]
    assert lines[at + 1 : at + 3] == ["    - '{{nodepool-name}}'", "    + beijing"]


def test_diff_says_so_if_there_is_none() -> None:
    result = convert(*NODE_POOLS, "-f", str(STORIES / "story-3"), "-o", "diff")
    assert result.stdout.splitlines()[-2:] == ["YurtAppSet story-3/yurtappset-demo, node pool shanghai", "  as before"]
    assert result.stdout.count("as before") == 3


def test_json_has_objects_and_report() -> None:
    result = convert("-f", "-", "-o", "json", stdin=manifests(BROKEN, yurt_app_set()))
    made = json.loads(result.stdout)
    assert [one["kind"] for one in made["objects"]] == ["YurtAppSet"]
    row = next(row for row in made["report"] if row["level"] == "error")
    assert (row["code"], row["name"], row["field"], row["pools"]) == (
        "not-rendered", "demo1", "entries[0].patches[0]", ["beijing"],
    )  # fmt: skip
    assert result.stderr == "fleethook: 1 error, 2 warnings\n"


def test_warnings_are_errors_if_strict() -> None:
    files = ("-f", str(STORIES / "story-2"))
    assert convert(*files).returncode == 0
    assert convert(*files, "--strict").returncode == 1


def test_a_misspelled_kind_is_reported() -> None:
    text = manifests({**yurt_app_set(), "kind": "YurtAppSets"}, yurt_app_set("other"))
    result = convert("-f", "-", stdin=text)
    assert result.returncode == 1
    assert "did you mean YurtAppSet?" in result.stderr


def test_usage_and_unreadable_input_exit_2(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    for arguments, text in (
        ((), "give -f FILE"),
        (("-f", str(tmp_path / "bad.yaml")), "bad.yaml:2: "),
        (NODE_POOLS, "nothing to convert: no YurtAppSet or YurtAppDaemon of v1alpha1"),
        (("--context", "a", *NODE_POOLS), "--context needs --kubeconfig"),
        (("--in-cluster", "--kubeconfig", "x"), "exclude each other"),
        (("--kubeconfig", str(tmp_path / "none")), "the cluster cannot be read"),
        (("--to", "v1", *NODE_POOLS), "v1beta1"),
    ):
        result = convert(*arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert text in result.stderr


# A cluster.


class Cluster:
    """An apiserver that lists objects, one a page."""

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
    assert set(levels(result)) == {"warning"}
    assert "cluster: warning: YurtAppSet default/a: spec.topology.pools[0]: node pool hangzhou: " in result.stderr


def test_files_are_converted_with_what_the_cluster_has(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
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
    assert "fleethook: the cluster cannot be read: " in result.stderr
    assert "yurtappdaemons is forbidden" in result.stderr
