"""A fleethook server that answers a real apiserver, and its RBAC rules."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.balancer import Balancer, balancer
from tests.e2e.cluster import Api, ControlPlane, free_port
from tests.serving import Server, serving
from tests.waiting import wait_for

NAMESPACE = "fleethook-system"
ACCOUNT = "e2e"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPENYURT = "/apis/apps.openyurt.io/v1alpha1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"

"""Most tests are about the webhook. Policies would hide its faults, so tests of policies ask for them."""

RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["apps.openyurt.io"],
        "resources": ["yurtappoverriders", "yurtappsets", "yurtappdaemons", "nodepools"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["apps.openyurt.io"],
        "resources": ["yurtappoverriders/status", "yurtappsets", "yurtappdaemons"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": ["config.karmada.io"],
        "resources": [
            "resourceexploringwebhookconfigurations",
            "resourceinterpreterwebhookconfigurations",
            "resourceinterpretercustomizations",
        ],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["config.karmada.io"],
        "resources": ["resourceinterpreterwebhookconfigurations"],
        "verbs": ["get", "create", "patch"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["karmada-config"],
        "verbs": ["list", "watch"],
    },
    # Only rules in Python read other ConfigMaps.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch", "create", "patch"],
    },
    {
        "apiGroups": ["apis.kcp.io"],
        "resources": ["apibindings", "apiexports", "apiresourceschemas"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["core.kcp.io"], "resources": ["logicalclusters"], "verbs": ["list", "watch"]},
    {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]
"""The rights of a server that registers itself."""


def service_account(plane: ControlPlane) -> Path:
    """Create our service account with its role and return its kubeconfig."""
    admin = plane.api()
    ignore_existing = {"metadata": {"name": NAMESPACE}, "apiVersion": "v1", "kind": "Namespace"}
    admin.apply(f"/api/v1/namespaces/{NAMESPACE}", ignore_existing)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    admin.apply(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}", account)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}}
    admin.apply(f"{RBAC}/clusterroles/{ACCOUNT}", {**role, "rules": RULES})
    binding = {**role, "kind": "ClusterRoleBinding"}
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    admin.apply(f"{RBAC}/clusterrolebindings/{ACCOUNT}", binding)
    return plane.kubeconfig(ACCOUNT, {"token": token(admin)})


def token(admin: Api) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer: str = admin.create(path, request)["status"]["token"]
    return answer


@contextlib.contextmanager
def run_registered_server(
    plane: ControlPlane, directory: Path, *arguments: str, kubeconfig: Path | None = None, **environment: str
) -> Iterator[Server]:
    """A server that follows the cluster and has registered itself with it."""
    port = free_port()
    given = ["--kubeconfig", str(kubeconfig or service_account(plane)), "--port", str(port)]
    given += ["--namespace", NAMESPACE, "--register", "--webhook-url", f"https://127.0.0.1:{port}", *arguments]
    with serving(directory, *given, manifests=None, **environment) as server:
        admin = plane.api()
        wait_for(lambda: is_ready(server), what="the server is ready")
        wait_for(lambda: is_trusted(admin, server), what="the apiserver trusts the server")
        try:
            yield server
        finally:
            server.stop()
            unregister(admin)


class Fleet:
    """Replicas behind a balancer, that share a Secret and a Lease."""

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        namespace: str,
        front: Balancer,
        stack: contextlib.ExitStack,
        **environment: str,
    ) -> None:
        self._stack = stack
        self._directory = directory
        self._front = front
        self._namespace = namespace
        self._kubeconfig = service_account(plane)
        self._environment = {"FLEETHOOK_LEASE_DURATION": "3", **environment}
        self._admin = plane.api()
        self._count = 0
        self.servers: list[Server] = []

    def start(self, *arguments: str) -> Server:
        """Start one more replica, and send it traffic once it is ready."""
        self._count += 1
        directory = self._directory / f"replica-{self._count}"
        directory.mkdir()
        given = ["--kubeconfig", str(self._kubeconfig), "--namespace", self._namespace, "--register"]
        given += ["--webhook-url", f"https://127.0.0.1:{self._front.port}", "--cert-secret", f"{self._namespace}/certs"]
        server = self._stack.enter_context(serving(directory, *given, *arguments, manifests=None, **self._environment))
        wait_for(lambda: is_ready(server), what="the replica is ready")
        self._front.backends.append(server.port)
        self.servers.append(server)
        return server

    def remove(self, server: Server) -> None:
        """Take a replica out of the endpoints."""
        self._front.backends.remove(server.port)
        self.servers.remove(server)

    def leader(self) -> Server:
        """Return the replica that leads, as soon as one does."""

        def leading() -> Server | None:
            for server in self.servers:
                if "fleethook_leader 1.0" in server.request("GET", "/metrics")[1].decode():
                    return server
            return None

        found = wait_for(leading, what="a replica leads")
        assert found is not None
        return found

    def registered(self) -> bool:
        """Whether the apiserver calls this fleet and trusts it."""
        return is_trusted(self._admin, self.servers[0], port=self._front.port)


@contextlib.contextmanager
def fleet(
    plane: ControlPlane, directory: Path, namespace: str, *, replicas: int, **environment: str
) -> Iterator[Fleet]:
    """Replicas that have registered themselves, with one of them leading."""
    with balancer() as front, contextlib.ExitStack() as stack:
        # Runs last, when no replica is left that could lead and register again.
        stack.callback(unregister, plane.api())
        made = Fleet(plane, directory, namespace, front, stack, **environment)
        for _ in range(replicas):
            made.start()
        made.leader()
        wait_for(made.registered, what="the apiserver trusts the fleet")
        yield made


def unregister(admin: Api) -> None:
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        admin.call("DELETE", f"{WEBHOOKS}/{kind}/fleethook")
    # Exists only if Karmada's definitions are installed.
    admin.call("DELETE", "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/fleethook")


def is_ready(server: Server) -> bool:
    status, body = server.request("GET", "/readyz")
    return status == 200 and bool(json.loads(body)["ready"])


def is_trusted(admin: Api, server: Server, *, port: int | None = None) -> bool:
    """Whether both configurations name the server's own authority, and the leader has added the rules of workloads."""
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        status, configuration, _ = admin.call("GET", f"{WEBHOOKS}/{kind}/fleethook")
        if status != 200:
            return False
        for webhook in configuration["webhooks"]:
            config = webhook["clientConfig"]
            if "rules" not in webhook and ".optional." in webhook["name"]:
                return False
            if base64.b64decode(config.get("caBundle", "")) != server.authority.read_bytes():
                return False
            if not config["url"].startswith(f"https://127.0.0.1:{port or server.port}/"):
                return False
    return True
