"""``fleethook doctor --kcp`` against the kcp of the tests (`tests.kcp_paths`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.cluster.kubernetes.list_watch import EVERY_SHARD
from fleethook.cluster.kubernetes.watched_resources import APIEXPORTS, CACHED, DISPATCHING, NAMESPACES
from tests.cli.commands import Result, invoke
from tests.engines.dispatch.builders import logical_cluster
from tests.kcp_paths import IDENTITY, Kcp, kcp_paths

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}


def list_shards(*names: str) -> dict[str, object]:
    return {"items": [{"metadata": {"name": name}} for name in names]}


@pytest.fixture
def kcp() -> Iterator[Kcp]:
    with kcp_paths() as made:
        made.objects = {one.path: [] for one in DISPATCHING}
        made.objects["/apis/core.kcp.io/v1alpha1/logicalclusters"] = [
            logical_cluster(one) for one in ("system:a", "ws1")
        ]
        made.single = {f"/clusters/root{SHARDS}": list_shards("root")}
        made.stopping.set()  # watches end at once
        yield made


def examine(kcp: Kcp, directory: Path, *options: str, context: str = "shard-base") -> Result:
    given = ["--kubeconfig", str(kcp.kubeconfig(directory)), "--context", context]
    return invoke(["doctor", "--kcp", *given, *options])


def levels(result: Result) -> list[str]:
    return [" ".join(line.split()[:2]) for line in result.stdout.splitlines() if ": " in line and "→" not in line]


def test_a_kcp_that_can_be_read_has_no_faults(kcp: Kcp, tmp_path: Path) -> None:
    result = examine(kcp, tmp_path)
    assert (result.exit_code, levels(result)) == (0, ["ok context:", "ok shards:"])
    assert "9 of 9 kinds can be listed and watched in /clusters/*" in result.stdout
    assert {one.path.partition(":")[0] for one in kcp.asked if one.method == "WATCH"} == {
        f"/clusters/*{one.path}" for one in DISPATCHING
    }


def test_a_refused_user_learns_the_context_and_the_rights(kcp: Kcp, tmp_path: Path) -> None:
    kcp.refuses.add("kcp-admin")
    result = examine(kcp, tmp_path, context="root")
    assert result.exit_code == 1
    assert (
        "the user may not list or watch customresourcedefinitions.apiextensions.k8s.io, namespaces, " in result.stdout
    )
    assert "with the context shard-base" in result.stdout
    assert f'apiGroups: ["tenancy.kcp.io"], resources: [workspaces:{IDENTITY}], verbs: [list, watch]' in result.stdout


def test_a_server_that_is_no_kcp_is_named(kcp: Kcp, tmp_path: Path) -> None:
    kcp.objects, kcp.single = {}, {}
    result = examine(kcp, tmp_path)
    assert result.exit_code == 1
    assert "serves no list below /clusters/*, so it is no kcp" in result.stdout


def test_missing_kinds_have_findings(kcp: Kcp, tmp_path: Path) -> None:
    del kcp.objects[APIEXPORTS.path], kcp.objects[NAMESPACES.path]
    result = examine(kcp, tmp_path)
    assert result.exit_code == 1
    assert levels(result) == [
        "error kinds:", "error kinds:", "error kinds:", "note context:", "ok shards:",
    ]  # fmt: skip
    assert "namespaces cannot be read at /clusters/*/api/v1/namespaces: 404: 404 page not found" in result.stdout


@pytest.mark.parametrize(
    ("shards", "text"),
    [
        (
            ["root", "shard-1"],
            "the kcp has the shards root, shard-1, and fleethook reads only the one of http://127.0.0.1:",
        ),
        ([], "does not serve Shards in root: it may be one of several shards"),
    ],
)
def test_one_of_several_shards_is_a_warning(kcp: Kcp, tmp_path: Path, shards: list[str], text: str) -> None:
    del kcp.single[f"/clusters/root{SHARDS}"]
    if shards:
        kcp.single[f"/clusters/root{SHARDS}"] = list_shards(*shards)
    result = examine(kcp, tmp_path)
    assert (result.exit_code, levels(result)[0], text in result.stdout) == (0, "warning shards:", True)
    assert examine(kcp, tmp_path, "--strict").exit_code == 1


def test_the_cache_server_is_examined(kcp: Kcp, tmp_path: Path) -> None:
    cache = ("--kcp-cache-kubeconfig", str(kcp.kubeconfig(tmp_path)))
    result = examine(kcp, tmp_path, *cache)
    assert (result.exit_code, levels(result)[0]) == (1, "error context:")
    kcp.single |= {f"{EVERY_SHARD}{one.path}": EMPTY for one in CACHED}
    result = examine(kcp, tmp_path, *cache)
    assert result.exit_code == 0
    count = len(CACHED)
    assert f"{count} of {count} kinds can be listed and watched in {EVERY_SHARD}" in result.stdout
