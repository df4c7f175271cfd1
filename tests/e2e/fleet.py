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
    grant(admin, ACCOUNT, RULES, {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE})
    return plane.kubeconfig(ACCOUNT, {"token": token(admin)})


def grant(admin: Api, name: str, rules: list[dict[str, Any]], subject: dict[str, str], *, namespace: str = "") -> None:
    """Give a subject the rights of a role and a binding with a name, in a namespace or in all."""
    scope, kind = (f"{RBAC}/namespaces/{namespace}", "Role") if namespace else (RBAC, "ClusterRole")
    group = "rbac.authorization.k8s.io"
    made = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}}
    admin.apply(f"{scope}/{kind.lower()}s/{name}", {**made, "rules": rules})
    reference = {"apiGroup": group, "kind": kind, "name": name}
    if subject["kind"] != "ServiceAccount":
        subject = {"apiGroup": group, **subject}
    binding = {**made, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
    admin.apply(f"{scope}/{kind.lower()}bindings/{name}", binding)


def token(admin: Api, namespace: str = NAMESPACE, account: str = ACCOUNT, **spec: Any) -> str:
    """Return a token of a service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer: str = admin.create(path, request)["status"]["token"]
    return answer


def registering(kubeconfig: Path, port: int) -> list[str]:
    """Return the arguments of a server that registers itself."""
    url = f"https://127.0.0.1:{port}"
    return [
        "--kubeconfig", str(kubeconfig), "--port", str(port), "--namespace", NAMESPACE, "--register", "--webhook-url", url,
    ]  # fmt: skip


@contextlib.contextmanager
def run_registered_server(
    plane: ControlPlane, directory: Path, *arguments: str, kubeconfig: Path | None = None, **environment: str
) -> Iterator[Server]:
    """A server that follows the cluster and has registered itself with it."""
    given = registering(kubeconfig or service_account(plane), free_port())
    with serving(directory, *given, *arguments, manifests=None, **environment) as server:
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


def expire_lease(admin: Api, namespace: str, name: str = "fleethook") -> None:
    """Let the Lease of a killed leader expire now.

    A duration that suits the test would be so short that a living leader loses its Lease on a busy machine.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    admin.call("PATCH", path, {"spec": {"leaseDurationSeconds": 1}}, content_type="application/merge-patch+json")


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
