"""Renders and installs the chart, and runs a server as its Deployment would."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import CRDS, Api, ControlPlane, free_port, is_established
from tests.e2e.fleet import WEBHOOKS, is_ready, token
from tests.other_constants import constants
from tests.serving import ROOT, Server, serving
from tests.waiting import NET, wait_for

CHART = ROOT / "charts" / "fleethook"
Values = dict[str, Any]
Right = tuple[str, str, str]

# Neither certificates nor a leader send requests here, so all remaining rights are the engine's.
DISPATCH_ALONE: Values = {
    "engines": {"overrider": {"enabled": False}, "dispatch": {"enabled": True}},
    "certificates": {"mode": "existing", "caBundle": "Q0E="},
    "controller": {"enabled": False},
}
DISPATCH_ELSEWHERE: Values = {
    "engines": {
        "overrider": {"enabled": False},
        "dispatch": {"enabled": True, "kubeconfigSecret": "kcp", "privateWebhooks": True},
    },
    "certificates": {"mode": "existing"},
}


def run(*command: object, stdin: str = "") -> str:
    result = subprocess.run(
        [str(part) for part in command], input=stdin, capture_output=True, text=True, timeout=NET, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def template(helm: Path, values: Values, *, name: str = "fleethook", namespace: str = "fleethook-system") -> list[Any]:
    text = run(helm, "template", name, CHART, "--namespace", namespace, "--values", "-", stdin=json.dumps(values))
    return [document for document in yaml.safe_load_all(text) if document]


def define(admin: Api, group: str, version: str, kind: str, *, scope: str) -> None:
    """Define a custom resource whose objects may have any members."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "versions": [served], "names": names},
    }  # fmt: skip
    admin.apply(f"{CRDS}/{plural}.{group}", definition)
    wait_for(lambda: is_established(admin, f"{plural}.{group}"))


def environment_of(container: Any) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def pod_of(documents: list[Any]) -> Any:
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


class Release:
    """A release of the chart, and a server outside the cluster with the settings of its Deployment."""

    def __init__(self, helm: Path, plane: ControlPlane, kubeconfig: Path, namespace: str) -> None:
        self._helm, self._plane, self._kubeconfig, self.namespace = helm, plane, kubeconfig, namespace
        self.port = free_port()
        self.values: Values = {
            "webhooks": {"url": f"https://127.0.0.1:{self.port}"},
            "crds": {"install": False},
            "settings": {
                "lease_duration": 3,
                "dns_names": ["localhost", "127.0.0.1", "::1"],
            },
            "drainSeconds": 0,
        }

    def helm(self, *arguments: str) -> str:
        return run(
            self._helm, *arguments, "--namespace", self.namespace, "--kubeconfig", self._kubeconfig,
            stdin=json.dumps(self.values),
        )  # fmt: skip

    def install(self) -> None:
        self.helm("install", "fleethook", str(CHART), "--values", "-")

    @property
    def account(self) -> str:
        return f"system:serviceaccount:{self.namespace}:fleethook"

    def token(self) -> str:
        return token(self._plane.api(), self.namespace, "fleethook")

    @contextlib.contextmanager
    def server(self, directory: Path, *arguments: str, kubeconfig: Path | None = None) -> Iterator[Server]:
        """Start the server of the Deployment with the rights of its service account, or with a mounted kubeconfig."""
        admin = self._plane.api()
        stored = admin[f"/apis/apps/v1/namespaces/{self.namespace}/deployments/fleethook"]
        (container,) = stored["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["serve"]
        environment = environment_of(container)
        source = "FLEETHOOK_IN_CLUSTER" if kubeconfig is None else "FLEETHOOK_KUBECONFIG"
        for replaced in (source, "FLEETHOOK_CERT_DIR", "FLEETHOOK_HOST", "FLEETHOOK_PORT"):
            del environment[replaced]
        kubeconfig = kubeconfig or self._plane.kubeconfig(f"sa-{self.namespace}", {"token": self.token()})
        given = ["--kubeconfig", str(kubeconfig), "--port", str(self.port), *arguments]
        environment |= constants(certificates=0.2)
        with serving(directory, *given, manifests=None, **environment) as server:
            wait_for(lambda: is_ready(server), what="the server is ready")
            yield server

    def secret(self) -> Any:
        return self._plane.api()[f"/api/v1/namespaces/{self.namespace}/secrets/fleethook-certs"]

    def bundles(self) -> set[str]:
        admin = self._plane.api()
        configurations = [
            admin[f"{WEBHOOKS}/{kind}/fleethook"]
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        ]
        return {webhook["clientConfig"].get("caBundle", "") for one in configurations for webhook in one["webhooks"]}


def rights(documents: list[Any]) -> list[tuple[Right, tuple[str, ...]]]:
    """Return the rights of the roles, each with the resource names that restrict it."""
    return [
        ((group, resource, verb), tuple(rule.get("resourceNames", ())))
        for document in documents
        if document["kind"] in ("ClusterRole", "Role")
        for rule in document["rules"] or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def read_used_rights(plane: ControlPlane, account: str) -> set[Right]:
    """Return the rights that an account has used; fails if the apiserver refused a request."""
    requests = list(plane.read_audit_log(account))
    assert [one for one in requests if one[3] in (401, 403)] == []
    return {(group, resource, verb) for group, resource, verb, _ in requests}


def read_granted_rights(helm: Path, release: Release) -> set[Right]:
    return {right for right, _ in rights(template(helm, release.values, namespace=release.namespace))}


def kinds(documents: list[Any]) -> set[str]:
    return {document["kind"] for document in documents}
