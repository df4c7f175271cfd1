"""Dispatch with the objects of a real apiserver, which are watched, and with its authorizer.

There is no kcp here, whose API server would keep clusters apart: objects say by annotation where they are, as kcp's do,
and the types of kcp are plain custom resources.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established
from tests.e2e.fleet import is_ready, service_account
from tests.engines.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    export,
    logical_cluster,
    review,
    webhook,
    widget,
)
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, webhooks
from tests.serving import Server, serving
from tests.waiting import NET, wait_for

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
KINDS = (
    ("apis.kcp.io", "v1alpha2", "APIBinding"),
    ("apis.kcp.io", "v1alpha2", "APIExport"),
    ("apis.kcp.io", "v1alpha1", "APIResourceSchema"),
    ("core.kcp.io", "v1alpha1", "LogicalCluster"),
    ("tenancy.kcp.io", "v1alpha1", "Workspace"),
)


def kcp_type(group: str, version: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
        },
        "spec": {"group": group, "names": {"kind": kind, "plural": plural}, "scope": "Cluster", "versions": [served]},
    }


@pytest.fixture(scope="module")
def server(plane: ControlPlane, admin: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    for one in KINDS:
        definition = kcp_type(*one)
        admin.apply(f"{CRDS}/{definition['metadata']['name']}", definition)
        wait_for(lambda name=definition["metadata"]["name"]: is_established(admin, name))
    directory = tmp_path_factory.mktemp("dispatching")
    kubeconfig = service_account(plane)
    # test_dispatch_access tests which callers are allowed.
    open_to_all = {"FLEETHOOK_DISPATCH_OPEN": "loopback"}
    with serving(directory, "--kubeconfig", str(kubeconfig), manifests=None, **open_to_all) as running:
        wait_for(lambda: is_ready(running), what="the server is ready")
        yield running


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/w"] = deny("asked")
        yield made


async def send_review(server: Server, cluster: str, made: dict[str, Any]) -> Any:
    body = json.dumps(made).encode()
    status, answer = await asyncio.to_thread(server.request, "POST", f"/clusters/{cluster}/validate", body)
    assert status == 200, answer
    return json.loads(answer)["response"]


async def until(server: Server, cluster: str, made: dict[str, Any], condition: Callable[[Any], bool]) -> Any:
    """Send a review until the answer is correct, because the watch delivers changes with a delay."""
    async with asyncio.timeout(NET):
        while not condition(response := await send_review(server, cluster, made)):
            await asyncio.sleep(0.05)
    return response


def is_denied(response: Any) -> bool:
    return response.get("status", {}).get("message") == 'admission webhook "w.example.org" denied the request: asked'


def is_allowed(response: Any) -> bool:
    return bool(response["allowed"])


def is_absent(response: Any) -> bool:
    return response.get("status", {}).get("message") == 'namespaces "d6-gold" not found in logical cluster ws6'


async def test_bindings_and_configurations_are_followed(server: Server, put: Any, admin: Api, hooks: Webhooks) -> None:
    put(EXPORTS, export("ws1", "widgets.example.org"))
    put(CONFIGURATIONS, configuration("ws1", "validating", webhook(clientConfig=hooks.client_config("/w")), name="d1"))
    assert "logical cluster ws3 is unknown" in (await send_review(server, "ws3", review()))["status"]["message"]
    put(LOGICAL_CLUSTERS, logical_cluster("ws3"))
    await until(server, "ws3", review(), is_allowed)
    put(BINDINGS, binding("ws3", "ws1", "widgets.example.org", name="d-ws3"))
    await until(server, "ws3", review(), is_denied)
    assert hooks.calls[-1].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws3"}
    hooks.answers["/w"] = allow
    assert is_allowed(await send_review(server, "ws3", review()))
    calls = len(hooks.calls)
    admin.apply(
        f"{CONFIGURATIONS}/d1",
        configuration(
            "ws1", "validating", webhook(clientConfig=hooks.client_config("/w"), rules=[{**WIDGETS, "operations": ["DELETE"]}]),
            name="d1",
        ),
    )  # fmt: skip
    hooks.answers["/w"] = deny("asked")
    await until(server, "ws3", review(), is_allowed)
    assert is_denied(await send_review(server, "ws3", review(None, old=widget(), operation="DELETE")))
    assert len(hooks.calls) > calls


async def test_a_namespace_that_was_made_just_now_is_read(
    server: Server, put: Any, admin: Api, hooks: Webhooks
) -> None:
    selecting = webhook(clientConfig=hooks.client_config("/w"), namespaceSelector={"matchLabels": {"tier": "gold"}})
    put(CONFIGURATIONS, configuration("ws6", "validating", selecting, name="d6"))
    made = widget()
    made["metadata"]["namespace"] = "d6-gold"
    await until(server, "ws6", review(made), is_absent)
    labels = {"name": "d6-gold", "labels": {"tier": "gold"}, "annotations": {"kcp.io/cluster": "ws6"}}
    await asyncio.to_thread(
        admin.apply, "/api/v1/namespaces/d6-gold", {"apiVersion": "v1", "kind": "Namespace", "metadata": labels}
    )
    # At once, without waiting for the watch.
    assert is_denied(await send_review(server, "ws6", review(made)))
    await asyncio.to_thread(admin.delete, "/api/v1/namespaces/d6-gold")
