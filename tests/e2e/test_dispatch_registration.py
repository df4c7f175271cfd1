"""The recipe of docs/dispatch.md on a real kube-apiserver: one registration for many logical clusters."""

import asyncio
import base64
import contextlib
import copy
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.chart import define
from tests.e2e.cluster import CRDS, Api, ControlPlane
from tests.e2e.fleet import grant, is_ready, service_account
from tests.engines.dispatch.webhook_server import Webhooks, allow, deny, patch, webhooks
from tests.serving import ROOT, Server, serving
from tests.waiting import NET, wait_for

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
WIDGETS = "/apis/shop.example.org/v1"
CALLER = "kube-apiserver-webhook-client"
CLUSTERS = ("ws1", "ws2", "ws9")
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


def recipes() -> list[dict[str, Any]]:
    """Return the manifests of the page."""
    text = (ROOT / "docs" / "dispatch.md").read_text()
    text = text.partition("## Register it with an apiserver")[2].partition("## Who may send requests")[0]
    blocks = [part.partition("```")[0] for part in text.split("```yaml\n")[1:]]
    return [document for block in blocks for document in yaml.safe_load_all(block)]


def registered_at(server: Server) -> list[dict[str, Any]]:
    """Return the manifests of the page to install, with the address of the server, without the tenant's example."""
    ca_bundle = base64.b64encode(server.authority.read_bytes()).decode()
    found = [copy.deepcopy(one) for one in recipes() if "annotations" not in one["metadata"]]
    for document in found:
        for webhook in document.get("webhooks", ()):
            path = webhook["clientConfig"]["url"].removeprefix("https://fleethook.example.org")
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{server.port}{path}", "caBundle": ca_bundle}
    return found


def of_tenant(cluster: str, phase: str, client_config: dict[str, Any]) -> dict[str, Any]:
    """Return the page's example of a tenant's configuration, for another cluster."""
    (example,) = (copy.deepcopy(one) for one in recipes() if "annotations" in one["metadata"])
    example["kind"] = f"{phase.title()}WebhookConfiguration"
    example["metadata"] = {"name": f"{cluster}-{phase}", "annotations": {"kcp.io/cluster": cluster}}
    example["webhooks"][0]["clientConfig"] = client_config
    return example


class Installed:
    """Objects of a test, removed at its end."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self._paths: list[str] = []

    def apply(self, document: dict[str, Any]) -> None:
        path = f"{REGISTRATION}/{PLURALS[document['kind']]}/{document['metadata']['name']}"
        self._paths.append(path)
        self._admin.apply(path, document)

    def remove(self) -> None:
        for path in reversed(self._paths):
            self._admin.delete(path)


class Tenant:
    """A user who may write the Widgets of one namespace, and nothing else."""

    def __init__(self, plane: ControlPlane, cluster: str) -> None:
        self.cluster = cluster
        self.namespace = f"shop-{cluster}"
        admin = plane.api()
        labels = {"example.org/cluster": cluster}
        metadata = {"name": self.namespace, "labels": labels, "annotations": {"kcp.io/cluster": cluster}}
        admin.apply(
            f"/api/v1/namespaces/{self.namespace}", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        rules = [{"apiGroups": ["shop.example.org"], "resources": ["widgets"], "verbs": ["*"]}]
        grant(admin, "widgets", rules, {"kind": "User", "name": f"tenant-{cluster}"}, namespace=self.namespace)
        self._api = plane.api(plane.authority.issue(f"tenant-{cluster}"))

    async def call(self, method: str, name: str = "", body: Any = None, **rest: Any) -> tuple[int, Any, list[str]]:
        path = f"{WIDGETS}/namespaces/{self.namespace}/widgets" + (f"/{name}" if name else "")
        return await asyncio.to_thread(self._api.call, method, path, body, **rest)

    async def create(self, name: str, **annotations: str) -> tuple[int, Any, list[str]]:
        metadata: dict[str, Any] = {"name": name, "namespace": self.namespace}
        if annotations:
            metadata["annotations"] = {
                key.replace("__", "/").replace("_", "."): text for key, text in annotations.items()
            }
        widget = {"apiVersion": "shop.example.org/v1", "kind": "Widget", "metadata": metadata, "spec": {}}
        return await self.call("POST", body=widget)

    async def annotate(self, name: str, cluster: str | None) -> tuple[int, Any, list[str]]:
        body = {"metadata": {"annotations": {"kcp.io/cluster": cluster}}}
        return await self.call("PATCH", name, body, content_type="application/merge-patch+json")


@pytest.fixture(scope="module")
def server(plane: ControlPlane, admin: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    define(admin, "shop.example.org", "v1", "Widget", scope="Namespaced")
    directory = tmp_path_factory.mktemp("who-calls")
    arguments = (
        "--kubeconfig",
        str(service_account(plane)),
        "--client-ca-file",
        str(plane.webhook_authority.certificate),
    )
    environment = {"FLEETHOOK_DISPATCH_CALLERS": json.dumps([CALLER]), "FLEETHOOK_ENGINES": '["dispatch"]'}
    with serving(directory, *arguments, manifests=None, **environment) as running:
        wait_for(lambda: is_ready(running), what="the server is ready")
        yield running
    admin.delete(f"{CRDS}/widgets.shop.example.org")


@pytest.fixture(scope="module")
def tenants(plane: ControlPlane, server: Server) -> dict[str, Tenant]:
    return {cluster: Tenant(plane, cluster) for cluster in CLUSTERS}


def label(review: dict[str, Any]) -> Any:
    """Label an object that is created."""
    if review["request"]["operation"] != "CREATE":
        return {"allowed": True}
    return patch({"op": "add", "path": "/metadata/labels", "value": {"by": "ws1"}})(review)


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/ws1/mutate"] = label
        made.answers["/ws1/validate"] = allow
        made.answers["/ws2/validate"] = deny("ws2 says no")
        yield made


@pytest.fixture
def installed(admin: Api, server: Server, hooks: Webhooks) -> Iterator[Installed]:
    """The registration of the page, and webhooks of two of three logical clusters."""
    made = Installed(admin)
    with contextlib.ExitStack() as stack:
        stack.callback(made.remove)
        made.apply(of_tenant("ws1", "mutating", hooks.client_config("/ws1/mutate")))
        made.apply(of_tenant("ws1", "validating", hooks.client_config("/ws1/validate")))
        made.apply(of_tenant("ws2", "validating", hooks.client_config("/ws2/validate")))
        for document in registered_at(server):
            made.apply(document)
        yield made


async def until_in_force(tenants: dict[str, Tenant], hooks: Webhooks) -> None:
    """Wait until the apiserver and the server know all of it: they hear of new objects a moment later."""
    number, seen = 0, ()
    deadline = time.monotonic() + NET
    while time.monotonic() < deadline:
        number += 1
        status, refused, _ = await tenants["ws2"].create(f"warm-{number}")
        code, made, _ = await tenants["ws1"].create(f"warm-{number}")
        metadata = made.get("metadata", {})
        seen = (status, refused, code, made)
        known = metadata.get("labels"), metadata.get("annotations")
        if status == 400 and known == ({"by": "ws1"}, {"kcp.io/cluster": "ws1"}) and "/ws1/validate" in hooks.paths:
            hooks.calls.clear()
            hooks.headers.clear()
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not in force: {seen}")


def list_calls(hooks: Webhooks) -> list[tuple[str, str]]:
    """Return path and cluster of each call since the last look."""
    found = []
    for one in hooks.calls:
        document = one.review["request"]["object"] or one.review["request"]["oldObject"]
        found.append((one.path, document["metadata"]["annotations"]["kcp.io/cluster"]))
    hooks.calls.clear()
    return found


async def test_one_registration_asks_the_webhooks_of_each_logical_cluster(
    installed: Installed, tenants: dict[str, Tenant], hooks: Webhooks
) -> None:
    await until_in_force(tenants, hooks)
    status, made, _ = await tenants["ws1"].create("a")
    assert (status, made["metadata"]["labels"]) == (201, {"by": "ws1"})
    assert made["metadata"]["annotations"] == {"kcp.io/cluster": "ws1"}
    assert list_calls(hooks) == [("/ws1/mutate", "ws1"), ("/ws1/validate", "ws1")]

    status, refused, _ = await tenants["ws2"].create("a")
    assert status == 400
    assert refused["message"].endswith('admission webhook "size.widgets.example.org" denied the request: ws2 says no')
    assert list_calls(hooks) == [("/ws2/validate", "ws2")]

    # Nothing is known of ws9: the apiserver vouches for it, and it has no webhooks.
    assert (await tenants["ws9"].create("a"))[0] == 201
    assert list_calls(hooks) == []

    # The deletion goes to the cluster of the stored object.
    assert (await tenants["ws1"].call("DELETE", "a"))[0] == 200
    assert list_calls(hooks) == [("/ws1/mutate", "ws1"), ("/ws1/validate", "ws1")]

    # The apiserver has not called any of them itself.
    assert {one["user-agent"] for one in hooks.headers} == {"fleethook"}


async def test_a_tenant_cannot_choose_the_cluster(
    installed: Installed, tenants: dict[str, Tenant], hooks: Webhooks
) -> None:
    await until_in_force(tenants, hooks)
    status, made, _ = await tenants["ws1"].create("mine", kcp_io__cluster="ws9")
    assert (status, made["metadata"]["annotations"]) == (201, {"kcp.io/cluster": "ws1"})
    assert {cluster for _, cluster in list_calls(hooks)} == {"ws1"}
    for cluster, shown in (("ws9", "ws9"), ("ws2", "ws2"), (None, "")):
        status, refused, _ = await tenants["ws1"].annotate("mine", cluster)
        assert status == 400
        assert refused["message"].endswith(
            f"request.object is in logical cluster {shown!r} and request.oldObject in 'ws1' (annotation kcp.io/cluster): "
            "an update cannot move an object; do not change the annotation"
        )
    assert list_calls(hooks) == []
    # An update that leaves it alone is admitted.
    assert (await tenants["ws1"].annotate("mine", "ws1"))[0] == 200
