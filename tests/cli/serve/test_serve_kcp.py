"""``fleethook serve --kcp`` against an apiserver that has kcp's paths."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.kubernetes.list_reading_and_decoding import EVERY_SHARD
from fleethook.cluster.kubernetes.watched_resources import APIBINDINGS, APIEXPORTS, CACHED, DISPATCHING, WORKSPACES
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    export,
    logical_cluster,
    namespace,
    review,
    webhook,
    workspace,
)
from tests.kcp_paths import IDENTITY, Kcp, kcp_paths
from tests.serving import Server, serving
from tests.waiting import wait_for

KINDS = {one.name: one.path for one in DISPATCHING}
IDENTITY_PATH = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io"
ENGINES = {"FLEETHOOK_ENGINES": '["dispatch"]', "FLEETHOOK_DISPATCH_OPEN": "loopback"}


def make_list_item(document: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a list, which has neither apiVersion nor kind."""
    metadata = {**document["metadata"], "resourceVersion": "1"}
    return {
        name: value for name, value in {**document, "metadata": metadata}.items() if name not in ("apiVersion", "kind")
    }


@pytest.fixture
def kcp() -> Iterator[Kcp]:
    selecting = webhook(namespaceSelector={"matchLabels": {"tier": "gold"}})
    with kcp_paths() as made:
        made.objects = {path: [] for path in KINDS.values()}
        for name, *documents in (
            ("apibindings.apis.kcp.io", binding("ws3", "ws1", "widgets.example.org")),
            ("apiexports.apis.kcp.io", export("ws1", "widgets.example.org")),
            (
                "validatingwebhookconfigurations.admissionregistration.k8s.io",
                configuration("ws1", "validating", selecting),
            ),
            ("logicalclusters.core.kcp.io", logical_cluster("ws1"), logical_cluster("ws3")),
            ("workspaces.tenancy.kcp.io", workspace("root", "team", "ws3")),
        ):
            made.objects[KINDS[name]] = [make_list_item(document) for document in documents]
        yield made


def read_checks(server: Server, *, status: int) -> dict[str, Any]:
    code, body = server.request("GET", "/readyz")
    assert code == status, body
    return {one["name"]: one for one in json.loads(body)["checks"]}


def explain(server: Server, cluster: str) -> tuple[int, Any]:
    status, body = server.request("POST", f"/clusters/{cluster}/explain", json.dumps(review()).encode())
    return status, json.loads(body)


def is_ready(server: Server) -> bool:
    return server.request("GET", "/readyz")[0] == 200


def test_all_logical_clusters_are_read_at_once_and_others_one_by_one(kcp: Kcp, tmp_path: Path) -> None:
    given = ("--kcp", "--kubeconfig", str(kcp.kubeconfig(tmp_path)), "--context", "shard-base")
    golden = namespace("ws3", tier="gold")
    golden["metadata"]["resourceVersion"] = "2"
    kcp.single["/clusters/ws3/api/v1/namespaces/default"] = golden
    with serving(tmp_path, *given, manifests=None, **ENGINES) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        found = read_checks(server, status=200)
        status, explanation = explain(server, "root:team")
    assert status == 200
    assert (explanation["cluster"], explanation["owner"]["cluster"]) == ("ws3", "ws1")
    assert [one["decision"] for one in explanation["validating"]] == ["call"]
    # The kinds that enabled engines need, and no others.
    assert found.keys() - {"draining", "shards"} == KINDS.keys()
    # The documented rights suffice for these requests, and the user is that of the chosen context.
    lists = {f"/clusters/*{path}{f':{IDENTITY}' if path == WORKSPACES.path else ''}" for path in KINDS.values()}
    assert {one.path for one in kcp.asked} == {*lists, IDENTITY_PATH, "/clusters/ws3/api/v1/namespaces/default"}
    assert {one.path for one in kcp.asked if one.method == "WATCH"} <= lists
    assert {one.user for one in kcp.asked} == {"shard-admin"}


def test_the_readiness_of_a_refused_user_names_the_kinds(kcp: Kcp, tmp_path: Path) -> None:
    kcp.refuses.add("kcp-admin")
    given = ("--kcp", "--kubeconfig", str(kcp.kubeconfig(tmp_path)))
    with serving(tmp_path, *given, manifests=None, **ENGINES) as server:

        def refused() -> bool:
            # The last one too: not only the kinds that an answer depends on.
            return all(
                "Forbidden" in one["detail"]
                for name, one in read_checks(server, status=503).items()
                if name not in ("draining", "shards")
            )

        wait_for(
            lambda: {one.path.partition(":")[0] for one in kcp.asked} >= {f"/clusters/*{one}" for one in KINDS.values()}
        )
        wait_for(refused, what="each kind is reported")
        found = read_checks(server, status=503)
    assert found.keys() - {"draining", "shards"} == KINDS.keys()
    detail = found["logicalclusters.core.kcp.io"]["detail"]
    assert detail.startswith("in all logical clusters (/clusters/*): ")
    assert 'User "kcp-admin" cannot list resource "logicalclusters"' in detail


@pytest.mark.parametrize("is_root", [True, False])
def test_workspaces_without_a_readable_identity_are_a_reason_not_to_be_ready(
    kcp: Kcp, tmp_path: Path, *, is_root: bool
) -> None:
    """A second shard has the identity in a ConfigMap; a kcp of another version may have neither."""
    kcp.is_root = is_root
    if is_root:
        del kcp.objects[APIEXPORTS.path]
    given = ("--kcp", "--kubeconfig", str(kcp.kubeconfig(tmp_path)), "--context", "shard-base")
    with serving(tmp_path, *given, manifests=None, **ENGINES) as server:
        if not is_root:
            wait_for(lambda: is_ready(server), what="the server is ready")
            return

        def read_failed() -> dict[str, str]:
            checks = read_checks(server, status=503).items()
            return {name: one["detail"] for name, one in checks if not one["ok"]}

        def only_two_failed() -> bool:
            return len(read_failed()) == 2 and not any("not listed yet" in one for one in read_failed().values())

        wait_for(only_two_failed, what="all other kinds are read")
        failed = read_failed()
    assert failed.keys() == {"apiexports.apis.kcp.io", "workspaces.tenancy.kcp.io"}
    assert (
        "does not serve it at /clusters/*/apis/apis.kcp.io/v1alpha2/apiexports (404" in failed["apiexports.apis.kcp.io"]
    )
    assert "the identity of the APIExport tenancy.kcp.io of root cannot be read" in failed["workspaces.tenancy.kcp.io"]


def test_a_kcp_of_an_older_version_is_no_kcp_without_bindings(kcp: Kcp, tmp_path: Path) -> None:
    for one in (APIBINDINGS, APIEXPORTS):
        kcp.objects[one.in_versions()[1].path] = kcp.objects.pop(one.path)
    given = ("--kcp", "--kubeconfig", str(kcp.kubeconfig(tmp_path)), "--context", "shard-base")
    with serving(tmp_path, *given, manifests=None, **ENGINES) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        assert explain(server, "root:team")[1]["owner"]["cluster"] == "ws1"


def test_the_cache_server_knows_providers_on_other_shards(kcp: Kcp, tmp_path: Path) -> None:
    """kcp itself reads these kinds from it (pkg/admission/validatingwebhook/plugin.go, getHookSource)."""
    golden = namespace("ws3", tier="gold")
    golden["metadata"]["resourceVersion"] = "2"
    kcp.single["/clusters/ws3/api/v1/namespaces/default"] = golden
    for one in CACHED:
        listed = {"metadata": {"resourceVersion": "1"}, "items": kcp.objects[one.path]}
        kcp.single[f"{EVERY_SHARD}{one.path}"], kcp.objects[one.path] = listed, []
    kcp.objects[KINDS["logicalclusters.core.kcp.io"]].pop(0)  # that of ws1
    config = str(kcp.kubeconfig(tmp_path))
    given = ("--kcp", "--kubeconfig", config, "--context", "shard-base")
    with serving(tmp_path, *given, manifests=None, **ENGINES) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        assert "kcp_cache_kubeconfig" in read_checks(server, status=200)["shards"]["detail"]
        owner = explain(server, "ws3")[1]["owner"]
        assert (owner["case"], "--kcp-cache-kubeconfig" in owner["problem"]) == ("unknown", True)
    with serving(tmp_path, *given, "--kcp-cache-kubeconfig", config, manifests=None, **ENGINES) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        assert "shards" not in read_checks(server, status=200)
        explanation = explain(server, "ws3")[1]
    assert explanation["owner"]["case"] == "bound"
    assert [one["decision"] for one in explanation["validating"]] == ["call"]
