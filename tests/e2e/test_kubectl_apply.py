"""``--change`` has the result of ``kubectl apply``."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.patch.three_way_merge import LAST_APPLIED, apply_manifest
from tests.builders import entry, image, overrider
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl, manifest
from tests.e2e.fleet import OPENYURT, WEBHOOKS

# The server sets these again for each write.
_WRITE: tuple[str, ...] = ("resourceVersion", "generation", "managedFields")


def hook(name: str, **members: Any) -> dict[str, Any]:
    """Return a webhook with all defaults, so that the server adds none."""
    return {
        "name": name, "clientConfig": {"url": "https://hooks.example.org/"}, "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"never": "matches"}}, "objectSelector": {},
        "rules": [{
            "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["nothing"], "operations": ["CREATE"],
            "scope": "*",
        }],
        **members,
    }  # fmt: skip


def condition(name: str, expression: str = "true") -> dict[str, str]:
    return {"name": name, "expression": expression}


def configuration(*hooks: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "kubectl-apply", **metadata},
        "webhooks": list(hooks),
    }


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object without metadata of a write, and its annotation as JSON."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in _WRITE}
    annotations = dict(metadata["annotations"])
    annotations[LAST_APPLIED] = json.loads(annotations[LAST_APPLIED])
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def list_names(document: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the names of webhooks and of their conditions, in order."""
    return [
        (one["name"], [condition["name"] for condition in one.get("matchConditions", ())])
        for one in document["webhooks"]
    ]


@pytest.fixture
def administrator(plane: ControlPlane) -> Path:
    user = {"client-certificate": str(plane.admin.certificate), "client-key": str(plane.admin.key)}
    return plane.kubeconfig("kubectl-apply", user)


def test_a_webhook_configuration_is_merged_as_kubectl_does(binaries: Path, administrator: Path, admin: Api) -> None:
    path = f"{WEBHOOKS}/validatingwebhookconfigurations/kubectl-apply"
    first = configuration(
        hook("a.example.org", matchConditions=[condition("gone"), condition("edited")]),
        hook("b.example.org"),
        labels={"mine": "1", "gone": "1"},
    )
    second = configuration(
        hook("c.example.org"),
        hook("a.example.org", timeoutSeconds=7, matchConditions=[condition("new"), condition("edited", "false")]),
        labels={"mine": "2"},
    )
    try:
        kubectl(binaries, administrator, "apply", "-f", "-", stdin=manifest(first))
        stored = admin[path]
        stored["webhooks"][0]["matchConditions"].append(condition("other"))
        stored["webhooks"].append(hook("other.example.org"))
        stored["metadata"]["labels"]["other"] = "1"
        live = admin.replace(path, stored)
        kubectl(binaries, administrator, "apply", "-f", "-", stdin=manifest(second))
        after = admin[path]
        predicted = apply_manifest(second, live)
        assert list_names(predicted) == list_names(after)
        assert comparable(predicted) == comparable(after)
    finally:
        admin.delete(path)


@pytest.mark.usefixtures("crds")
def test_a_custom_resource_is_merged_as_kubectl_does(
    binaries: Path, administrator: Path, admin: Api, namespace: str
) -> None:
    path = f"{OPENYURT}/namespaces/{namespace}/yurtappoverriders/demo"
    first = overrider(entry("a", items=[image("nginx", "nginx:1")]), entry("b", items=[image("nginx", "nginx:1")]))
    first["metadata"] = {"name": "demo", "namespace": namespace, "annotations": {"mine": "1", "gone": "1"}}
    second = {**first, "entries": [entry("b", items=[image("nginx", "nginx:2")])]}
    second["metadata"] = {"name": "demo", "namespace": namespace, "annotations": {"mine": "2"}}
    kubectl(binaries, administrator, "apply", "-f", "-", stdin=manifest(first))
    live = admin.merge(path, {"metadata": {"annotations": {"other": "1"}, "finalizers": ["example.org/kept"]}})
    kubectl(binaries, administrator, "apply", "-f", "-", stdin=manifest(second))
    assert comparable(apply_manifest(second, live)) == comparable(admin[path])
    admin.merge(path, {"metadata": {"finalizers": None}})
    admin.delete(path)
