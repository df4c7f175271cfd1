"""The console on an address other than loopback: a real kube-apiserver decides about its users."""

import contextlib
import http.client
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fleethook.cluster.store import Store
from fleethook.console.process import console_indexes, make_cluster
from fleethook.settings import Settings
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.pki import Pair
from tests.serving import started
from tests.waiting import NET, wait_for

RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = ["yurtappoverriders", "yurtappsets", "yurtappdaemons", "nodepools"]


class Console:
    """A running console, and its authority."""

    def __init__(self, port: int, authority: Path) -> None:
        self._port = port
        self._authority = authority

    def request(
        self, path: str, *, form: dict[str, str] | None = None, client: Pair | None = None, **headers: str
    ) -> tuple[int, str, list[str]]:
        """Return status, text and cookies, as soon as the apiserver answers the console in time."""

        def ask() -> Any:
            answer = self.ask_once(path, form=form, client=client, headers=headers)
            return None if answer[0] == 503 else answer

        answer: tuple[int, str, list[str]] = wait_for(ask, what="the apiserver decides")
        return answer

    def ask_once(
        self, path: str, *, form: dict[str, str] | None, client: Pair | None, headers: dict[str, str]
    ) -> tuple[int, str, list[str]]:
        """Return the first answer; arguments as for `request`."""
        context = ssl.create_default_context(cafile=str(self._authority))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", self._port, context=context, timeout=NET)
        ) as connection:
            if form is not None:
                headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
            body = None if form is None else urlencode(form)
            connection.request("GET" if form is None else "POST", path, body=body, headers=headers)
            response = connection.getresponse()
            cookies = [one.partition(";")[0] for one in response.headers.get_all("Set-Cookie", [])]
            return response.status, response.read().decode(), cookies

    def get(self, path: str, token: str) -> tuple[int, str]:
        status, text, _ = self.request(path, Authorization=f"Bearer {token}")
        return status, text


@contextlib.contextmanager
def serving(plane: ControlPlane, kubeconfig: Path, tmp_path: Path, *arguments: str) -> Iterator[Console]:
    """Start a console with the rights of a kubeconfig, and further arguments."""
    certificates = tmp_path / "certs"
    command = [sys.executable, "-m", "fleethook", "console", "--kubeconfig", str(kubeconfig), "--port", "0"]
    # Every address of this machine, of which the tests use a loopback one.
    command += ["--host", "0.0.0.0", "--cert-dir", str(certificates)]
    command += ["--client-ca-file", str(plane.authority.certificate)]
    log = tmp_path / "log"
    with started([*command, *arguments], log, r"console: https://0\.0\.0\.0:(\d+)/") as (_, port):
        yield Console(port, certificates / "ca.crt")


@pytest.fixture
def console(plane: ControlPlane, kubeconfig: Path, tmp_path: Path) -> Iterator[Console]:
    with serving(plane, kubeconfig, tmp_path) as made:
        yield made


def list_followed(kubeconfig: Path) -> set[tuple[str, str]]:
    """Return group and plural of each resource that a console follows."""
    parts = make_cluster(Settings(kubeconfig=kubeconfig), Store(console_indexes())).source.parts()
    return {(group, plural) for plural, _, group in (part.name.partition(".") for part in parts)}


def create_account(admin: Api, namespace: str, name: str) -> str:
    """Create a service account and return a token."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.create(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = admin.create(f"{path}/{name}/token", request)["status"]["token"]
    return token


def permit(admin: Api, subject: dict[str, Any], name: str) -> None:
    """Give a subject the right to get the kinds of the section Overriders."""
    meta: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    rules = [
        {"apiGroups": ["apps.openyurt.io"], "resources": KINDS, "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get"]},
    ]
    admin.create(f"{RBAC}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {**meta, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    admin.create(f"{RBAC}/clusterrolebindings", binding)


def test_a_request_without_valid_credentials_sees_nothing(console: Console, plane: ControlPlane) -> None:
    assert console.request("/overriders")[0] == 401
    assert console.get("/overriders", "invalid")[0] == 401
    # The certificate of another authority ends the handshake, or the first read with TLS 1.3.
    stranger = plane.webhook_authority.issue("stranger", "system:masters")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        console.ask_once("/overriders", form=None, client=stranger, headers={})


def test_the_rights_of_a_service_account_decide(console: Console, admin: Api, namespace: str) -> None:
    token = create_account(admin, namespace, "viewer")
    status, text = console.get("/overriders", token)
    assert status == 403, text
    assert f"system:serviceaccount:{namespace}:viewer" in text
    assert "may not get YurtAppOverrider.apps.openyurt.io in all namespaces" in text
    permit(admin, {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}, f"{namespace}-viewer")
    wait_for(lambda: console.get("/overriders", token)[0] == 200, what="the right has effect")
    assert console.get("/dispatch", token)[0] == 403


def test_the_leader_needs_the_right_to_get_leases(console: Console, admin: Api, namespace: str) -> None:
    token = create_account(admin, namespace, "watcher")
    status, text = console.get("/", token)
    assert status == 200
    assert "You may not get Leases in the namespace <bdi>kube-system</bdi>" in text
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"{namespace}-watcher"}}
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]
    path = f"{RBAC}/namespaces/kube-system"
    admin.create(f"{path}/roles", {**meta, "kind": "Role", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"{namespace}-watcher"}
    subject = {"kind": "ServiceAccount", "name": "watcher", "namespace": namespace}
    binding = {**meta, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    admin.create(f"{path}/rolebindings", binding)
    wait_for(lambda: "You may not get Leases" not in console.get("/", token)[1], what="the right has effect")


def test_a_deleted_service_account_loses_access(console: Console, admin: Api, namespace: str) -> None:
    token = create_account(admin, namespace, "former")
    assert console.get("/", token)[0] == 200
    admin.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/former")
    wait_for(lambda: console.get("/", token)[0] == 401, what="the token is refused")


def test_a_client_certificate_names_user_and_groups(
    console: Console, plane: ControlPlane, admin: Api, namespace: str
) -> None:
    client = plane.authority.issue(f"jane-{namespace}", f"viewers-{namespace}")
    status, text, _ = console.request("/overriders", client=client)
    assert status == 403, text
    assert f"jane-{namespace}" in text
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"viewers-{namespace}"}
    permit(admin, group, f"{namespace}-viewers")
    wait_for(lambda: console.request("/overriders", client=client)[0] == 200, what="the right of the group has effect")


def test_a_browser_signs_in_and_out(console: Console, admin: Api, namespace: str) -> None:
    token = create_account(admin, namespace, "browser")
    _, text, (visit,) = console.request("/login")
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', text)
    assert found is not None
    form = {"csrf_token": found[1]}
    assert console.request("/login", form={**form, "token": "invalid"}, Cookie=visit)[0] == 401
    status, _, (session,) = console.request("/login", form={**form, "token": token}, Cookie=visit)
    assert status == 303
    status, text, _ = console.request("/", Cookie=session)
    assert status == 200
    assert f"system:serviceaccount:{namespace}:browser" in text
    assert console.request("/logout", form=form, Cookie=f"{visit}; {session}")[0] == 303
    assert console.request("/", Cookie=session)[0] == 401


def test_a_console_without_the_right_to_list_one_kind_becomes_ready(
    plane: ControlPlane, admin: Api, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    name = f"{namespace}-partial"
    token = create_account(admin, namespace, "partial")
    lacking = ("apps.openyurt.io", "nodepools")
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["list", "watch"]}
        for group, plural in sorted(list_followed(kubeconfig) - {lacking})
    ]
    meta: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    admin.create(f"{RBAC}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules})
    for role in (name, "system:auth-delegator"):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject = {"kind": "ServiceAccount", "name": "partial", "namespace": namespace}
        binding: dict[str, Any] = {**meta, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
        binding["metadata"] = {"name": f"{name}-{role.replace(':', '-')}"}
        admin.create(f"{RBAC}/clusterrolebindings", binding)
    restricted = plane.kubeconfig(name, {"token": token})
    with serving(plane, restricted, tmp_path) as console:
        wait_for(
            lambda: console.ask_once("/readyz", form=None, client=None, headers={})[0] == 200,
            what="the console is ready",
        )
        # The reason is there as soon as the console is ready, and the other kinds are read.
        text = console.get("/", token)[1]
        assert set(re.findall(r"([\w.]+) is forbidden", text)) == {"nodepools.apps.openyurt.io"}
