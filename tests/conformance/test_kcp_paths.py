"""The kcp of the tests answers as a real one did."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from fleethook.cluster.kubernetes.watched_resources import APIBINDINGS, APIEXPORTS, DISPATCHING
from tests.engines.dispatch.builders import namespace, workspace
from tests.kcp_paths import IDENTITY, Kcp

FACTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").with_stem("kcp_paths").read_text())["requests"]
# The kcp of the tests has neither virtual workspaces nor a cache server nor paths of workspaces, and knows its logical clusters.
NOT_SIMULATED = ("/services/", "/clusters/root:", "/clusters/nosuch/")
SIMULATED = ("root", "shard-1")
USERS = {"shard-base": "shard-admin", "base": "kcp-admin", "provider": "system:serviceaccount:default:provider"}


@pytest.fixture
def kcps() -> dict[str, Kcp]:
    root, shard = Kcp(), Kcp()
    for kcp in (root, shard):
        kcp.refuses = {USERS["base"], USERS["provider"]}
        older = [one.in_versions()[1] for one in (APIBINDINGS, APIEXPORTS)]
        kcp.objects = {one.path: [] for one in (*DISPATCHING, *older)}
    shard.is_root = False
    root.objects["/apis/tenancy.kcp.io/v1alpha1/workspaces"] = [workspace("root", "provider", "2gnd1ykx4j2nqwou")]
    root.objects["/api/v1/namespaces"] = [namespace("root")]
    root.single["/clusters/root/apis/core.kcp.io/v1alpha1/shards"] = {"kind": "ShardList", "items": []}
    return {"root": root, "shard-1": shard}


@pytest.mark.parametrize(
    "fact",
    [one for one in FACTS if one["server"] in SIMULATED and not one["get"].startswith(NOT_SIMULATED)],
    ids=lambda one: f"{one['server']} {one['context']} {one['get']}",
)
def test_an_answer_is_the_one_of_a_real_kcp(fact: dict[str, Any], kcps: dict[str, Kcp]) -> None:
    url = urlsplit(fact["get"].replace("HASH", IDENTITY))
    watching = "watch" in parse_qs(url.query)
    status, body = kcps[fact["server"]].answer(url.path, USERS[fact["context"]], verb="watch" if watching else "list")
    assert (status, isinstance(body, str)) == (fact["status"], "text" in fact)
    if "text" in fact:
        assert body.strip() == fact["text"]
    elif "kind" in fact:
        assert body["kind"] == fact["kind"]
        assert body.get("message", "") == fact.get("message", "")
