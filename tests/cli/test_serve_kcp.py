"""``fleethook serve --kcp`` against an apiserver that has kcp's paths."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.store.sources.kubernetes.resources import DISPATCHING
from tests.dispatch.builders import (
    binding,
    configuration,
    export,
    logical_cluster,
    namespace,
    review,
    webhook,
    workspace,
)
from tests.kcp_paths import Kcp, kcp_paths
from tests.serving import Server, serving
from tests.waiting import wait_for

KINDS = {one.name: one.path for one in DISPATCHING}
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
        # Readiness does not wait for Workspaces, which older roles do not grant.
        wait_for(lambda: explain(server, "root:team")[1]["cluster"] == "ws3", what="the path is known")
        status, explanation = explain(server, "root:team")
    assert status == 200
    assert (explanation["cluster"], explanation["owner"]["cluster"]) == ("ws3", "ws1")
    assert [one["decision"] for one in explanation["validating"]] == ["call"]
    # The kinds that enabled engines need, and no others.
    assert found.keys() - {"draining"} == KINDS.keys() - {"workspaces.tenancy.kcp.io"}
    # The documented rights suffice for these requests, and the user is that of the chosen context.
    lists = {f"/clusters/*{path}" for path in KINDS.values()}
    assert {one.path for one in kcp.asked} == {*lists, "/clusters/ws3/api/v1/namespaces/default"}
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
                if name != "draining"
            )

        wait_for(lambda: {one.path for one in kcp.asked} >= {f"/clusters/*{path}" for path in KINDS.values()})
        wait_for(refused, what="each kind is reported")
        found = read_checks(server, status=503)
    assert found.keys() - {"draining"} == KINDS.keys()
    detail = found["logicalclusters.core.kcp.io"]["detail"]
    assert detail.startswith("in all logical clusters (/clusters/*): ")
    assert "kcp-admin cannot list at the cluster scope" in detail
