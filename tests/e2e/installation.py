"""A server that registers itself, and that a test can stop and start again."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from fleethook.cluster.registration.webhook_configurations import find_conditions
from fleethook.engines.overrider.subject.announcements import ANNOUNCED_ANNOTATION, Announcement, read_announcements
from fleethook.engines.overrider.subject.match_condition_texts import SelectedSubjects, SubjectName, read_conditions
from tests.e2e.cluster import Api, ControlPlane, free_port
from tests.e2e.fleet import (
    ACCOUNT,
    NAMESPACE,
    RBAC,
    RULES,
    WEBHOOKS,
    expire_lease,
    is_ready,
    is_trusted,
    registering,
    service_account,
    token,
    unregister,
)
from tests.e2e.proxy import Proxy
from tests.serving import Server, serving
from tests.waiting import wait_for

CONFIGURATION = f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"


class Installation:
    """A server that registers itself at a fixed address, and that can be down.

    Between two starts its certificates, its port and its registration stay.
    """

    def __init__(
        self, plane: ControlPlane, directory: Path, kubeconfig: Path | None = None, **environment: str
    ) -> None:
        self._admin = plane.api()
        self._directory = directory
        self._environment = environment
        self._running = contextlib.ExitStack()
        self._given = registering(kubeconfig or service_account(plane), free_port())

    @contextlib.contextmanager
    def up(self, **environment: str) -> Iterator[Server]:
        """Start the server, and wait until it is ready and the apiserver trusts it."""
        with self.started(**environment) as server:
            wait_for(lambda: is_ready(server), what="the server is ready")
            wait_for(lambda: is_trusted(self._admin, server), what="the apiserver trusts the server")
            yield server

    @contextlib.contextmanager
    def started(self, **environment: str) -> Iterator[Server]:
        """Start the server without waiting for anything."""
        given = {**self._environment, **environment}
        with serving(self._directory, *self._given, manifests=None, **given) as server:
            yield server

    def start(self) -> None:
        """Start the server like `up`, until `kill`."""
        server = self._running.enter_context(self.up())
        self._running.callback(server.process.kill)

    def kill(self) -> None:
        """Kill the server as in a crash: the registration stays, and no server answers."""
        self._running.close()
        expire_lease(self._admin, NAMESPACE)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Kill the server, and start it again after the context."""
        self.kill()
        try:
            yield
        finally:
            self.start()


@contextlib.contextmanager
def run_installation(
    plane: ControlPlane, directory: Path, *, proxy: Proxy | None = None, **environment: str
) -> Iterator[Installation]:
    """Run a server; with ``proxy``, it reaches the apiserver through it, while the apiserver calls the server directly."""
    kubeconfig = service_account(plane)
    if proxy is not None:
        server = f"https://127.0.0.1:{proxy.port}"
        kubeconfig = plane.kubeconfig("proxied", {"token": token(plane.api())}, server=server)
    instance = Installation(plane, directory, kubeconfig, **environment)
    try:
        instance.start()
        yield instance
    finally:
        instance.kill()
        unregister(plane.api())


def checks(server: Server, *, query: str = "") -> tuple[int, dict[str, str]]:
    """Return the status of ``/readyz``, and the details of its checks."""
    status, body = server.request("GET", f"/readyz{query}")
    return status, {check["name"]: check["detail"] for check in json.loads(body)["checks"] if check["detail"]}


def expressions(admin: Api) -> set[str]:
    """Return the expressions of the conditions on overriders in the webhooks for workloads."""
    return {one["expression"] for webhook in admin[CONFIGURATION]["webhooks"] for one in find_conditions(webhook)}


def selection(admin: Api) -> SelectedSubjects:
    """Return the subjects that the webhooks for workloads select."""
    return read_conditions(expressions(admin))


@contextlib.contextmanager
def without_leader(admin: Api) -> Iterator[None]:
    """Let somebody else hold the Lease, so that no replica leads."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fleethook"
    admin.call("DELETE", lease)
    held = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "acquireTime": "2026-06-01T00:00:00.000000Z"}
    spec = {**held, "renewTime": "2026-06-01T00:00:00.000000Z", "leaseTransitions": 0}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "fleethook"}, "spec": spec}
    admin.create(lease.removesuffix("/fleethook"), body)
    try:
        yield
    finally:
        admin.delete(lease)


@contextlib.contextmanager
def without_right(admin: Api, resource: str) -> Iterator[None]:
    """Take the right to read a resource from the servers."""
    path, role = f"{RBAC}/clusterroles/{ACCOUNT}", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}

    def grant(*, everything: bool) -> None:
        rules = [
            {**one, "resources": [each for each in one["resources"] if everything or each != resource]} for one in RULES
        ]
        admin.apply(path, {**role, "metadata": {"name": ACCOUNT}, "rules": [one for one in rules if one["resources"]]})

    grant(everything=False)
    try:
        yield
    finally:
        grant(everything=True)


def announcements(admin: Api) -> tuple[Announcement, ...]:
    """Return the overriders that the configuration announces, oldest first."""
    return read_announcements(admin[CONFIGURATION]["metadata"].get("annotations", {}).get(ANNOUNCED_ANNOTATION))


def selects(admin: Api, namespace: str, subject: str = "YurtAppSet/demo") -> bool:
    """Whether the conditions name a subject, by kind and name."""
    return SubjectName(namespace, *subject.split("/")) in selection(admin).subjects
