"""The chart on a real apiserver: every manifest taken, a server under its very roles, upgrades that keep the CA."""

import base64
import contextlib
import http.client
import json
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import entry
from tests.dispatch.builders import configuration, review, webhook, widget
from tests.e2e.cluster import Api, ControlPlane, _free_port
from tests.e2e.conftest import CRDS, established, kubectl, there
from tests.e2e.controlplane import build
from tests.e2e.fleet import RBAC, WEBHOOKS, ready, trusted
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.serving import MUTATE, ROOT, Server, serving
from tests.waiting import wait_for

CHART = ROOT / "charts" / "fleethook"
Values = dict[str, Any]
Right = tuple[str, str, str]

# Neither certificates nor a leader ask for anything here: what is left is the engine's.
DISPATCH_ALONE: Values = {
    "engines": {"overrider": {"enabled": False}, "dispatch": {"enabled": True}},
    "certificates": {"mode": "existing", "caBundle": "Q0E="},
    "controller": {"enabled": False},
}
DISPATCH_ELSEWHERE: Values = {
    "engines": {
        "overrider": {"enabled": False},
        "dispatch": {"enabled": True, "kubeconfigSecret": "kcp", "privateWebhooks": True, "asKcp": True},
    },
    "certificates": {"mode": "existing"},
}

MATRIX: dict[str, Values] = {
    "defaults": {},
    "everything": {
        "autoscaling": {"enabled": True},
        "networkPolicy": {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "clientCAConfigMap": "apiserver-ca",
        "crds": {"subjects": True},
        "settings": {"stale_is_unready": True, "body_limit": 1048576, "log_reviews": False},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "x"}],
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "serviceAccount": {"annotations": {"e": "f"}},
        "service": {"annotations": {"g": "h"}, "port": 8443},
        "webhooks": {"exemptNamespaces": ["kube-system"], "failurePolicy": "Ignore", "timeoutSeconds": 3},
        "image": {"digest": f"sha256:{'0' * 64}"},
    },
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
    "cert-manager, an issuer of one's own": {
        "certificates": {
            "mode": "cert-manager",
            "certManager": {"issuerRef": {"kind": "ClusterIssuer", "name": "corp"}},
        }
    },
    "a Secret of one's own": {"certificates": {"mode": "existing", "secretName": "mine"}},
    "a fixed bundle": {"certificates": {"mode": "existing", "caBundle": "Q0E="}},
    "no controller": {"controller": {"enabled": False}},
    "no engine": {"engines": {"overrider": {"enabled": False}}},
    "interpret only": {"engines": {"overrider": {"enabled": False}, "interpret": {"enabled": True}}},
    "dispatch only": DISPATCH_ALONE,
    "every engine": {"engines": {"interpret": {"enabled": True}, "dispatch": {"enabled": True}}},
    "a kcp elsewhere": DISPATCH_ELSEWHERE,
    "every engine of a kcp elsewhere, cert-manager": {
        "engines": {"interpret": {"enabled": True}, "dispatch": {"enabled": True, "kubeconfigSecret": "kcp"}},
        "certificates": {"mode": "cert-manager"},
    },
    "one replica, no budget": {"replicas": 1, "podDisruptionBudget": {"enabled": False}},
    "outside": {"webhooks": {"url": "https://webhooks.example.com:9443"}, "crds": {"install": False}},
}


@pytest.fixture(scope="session")
def helm(binaries: Path) -> Path:
    return there(build.find_helm())


def run(*command: object, stdin: str = "") -> str:
    result = subprocess.run(
        [str(part) for part in command], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def template(helm: Path, values: Values, *, name: str = "fleethook", namespace: str = "fleethook-system") -> list[Any]:
    text = run(helm, "template", name, CHART, "--namespace", namespace, "--values", "-", stdin=json.dumps(values))
    return [document for document in yaml.safe_load_all(text) if document]


def define(admin: Api, group: str, version: str, kind: str, *, scope: str) -> None:
    """Have an apiserver take any object of a kind."""
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
    wait_for(lambda: established(admin, f"{plural}.{group}"))


@pytest.fixture(scope="module")
def kcp_kinds(admin: Api) -> None:
    """The kinds of kcp, as an apiserver that is none can have them: cluster by annotation."""
    for group, version, kind in (
        ("apis.kcp.io", "v1alpha2", "APIBinding"), ("apis.kcp.io", "v1alpha2", "APIExport"),
        ("apis.kcp.io", "v1alpha1", "APIResourceSchema"), ("core.kcp.io", "v1alpha1", "LogicalCluster"),
    ):  # fmt: skip
        define(admin, group, version, kind, scope="Cluster")


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane, admin: Api, crds: None) -> Path:
    """An administrator's, on a cluster that has the kinds of cert-manager and Prometheus, too."""
    for group, kind in (
        ("cert-manager.io", "Issuer"), ("cert-manager.io", "Certificate"), ("monitoring.coreos.com", "ServiceMonitor"),
    ):  # fmt: skip
        define(admin, group, "v1", kind, scope="Namespaced")
    user = {"client-certificate": str(plane.admin.certificate), "client-key": str(plane.admin.key)}
    return plane.kubeconfig("chart", user)


def test_lint_is_content(helm: Path) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in run(helm, "lint", "--strict", CHART)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_an_apiserver_takes_every_manifest(
    helm: Path, binaries: Path, kubeconfig: Path, namespace: str, values: Values
) -> None:
    documents = template(helm, values, namespace=namespace)
    # The order that Helm applies them in is its own matter.
    text = yaml.safe_dump_all(documents)
    printed = kubectl(
        binaries, kubeconfig, "apply", "--dry-run=server", "--validate=strict", "--force-conflicts", "--server-side",
        "-f", "-", stdin=text,
    )  # fmt: skip
    assert len(printed.splitlines()) == len(documents)


def kinds(documents: list[Any]) -> set[str]:
    return {document["kind"] for document in documents}


def test_an_engine_that_is_switched_off_leaves_nothing_behind(helm: Path) -> None:
    documents = template(helm, MATRIX["no engine"])
    assert not kinds(documents) & {
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "CustomResourceDefinition",
    }  # fmt: skip
    (role,) = (document for document in documents if document["kind"] == "ClusterRole")
    groups = {group for rule in role["rules"] for group in rule["apiGroups"]}
    assert groups == {"admissionregistration.k8s.io"}


def test_pods_meet_the_restricted_pod_security_standard(
    helm: Path, admin: Api, kubeconfig: Path, binaries: Path, namespace: str
) -> None:
    admin.merge(
        f"/api/v1/namespaces/{namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )
    (deployment,) = (
        document
        for document in template(helm, MATRIX["everything"], namespace=namespace)
        if document["kind"] == "Deployment"
    )
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "restricted", "namespace": namespace}, "spec": deployment["spec"]["template"]["spec"],
    }  # fmt: skip
    for member in ("serviceAccountName", "priorityClassName"):
        pod["spec"].pop(member)
    kubectl(binaries, kubeconfig, "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"replica": 3}, "replica"),
        ({"webhooks": {"failurePolicy": "Maybe"}}, "failurePolicy"),
        ({"certificates": {"mode": "none"}}, "mode"),
        ({"engines": {"unknown": {"enabled": True}}}, "unknown"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"engines": {"dispatch": {"enabled": True, "kcp": True}}}, "kcp"),
        ({"engines": {"dispatch": {"enabled": True, "asKcp": "yes"}}}, "asKcp"),
        ({"engines": {"interpret": {"enabled": True, "kubeconfigSecret": "kcp"}}}, "kubeconfigSecret"),
        ({"engines": {"dispatch": {"enabled": True, "kubeconfigSecret": "kcp"}}}, "set certificates.mode to"),
        ({"engines": {"dispatch": {"kubeconfigSecret": "kcp"}}}, "set engines.dispatch.enabled=true"),
    ],
)
def test_values_that_mean_nothing_are_refused(helm: Path, values: Values, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        template(helm, values)


def paths_of(values: Values, prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and name not in ("resources", "nodeSelector"):
            yield from paths_of(value, f"{path}.")
        else:
            yield path


def test_the_readme_has_every_value() -> None:
    text = (CHART / "README.md").read_text()
    missing = [
        path for path in paths_of(yaml.safe_load((CHART / "values.yaml").read_text())) if f"`{path}`" not in text
    ]
    assert missing == []


class Release:
    """A release of the chart, and a server as its Deployment has it, outside the cluster."""

    def __init__(self, helm: Path, plane: ControlPlane, kubeconfig: Path, namespace: str) -> None:
        self._helm, self._plane, self._kubeconfig, self.namespace = helm, plane, kubeconfig, namespace
        self.port = _free_port()
        self.values: Values = {
            "webhooks": {"url": f"https://127.0.0.1:{self.port}"},
            "crds": {"install": False},
            "settings": {
                "lease_duration": 3,
                "certificate_interval": 0.2,
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
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/fleethook/token"
        token: str = self._plane.api().create(path, request)["status"]["token"]
        return token

    @contextlib.contextmanager
    def server(self, directory: Path, *, kubeconfig: Path | None = None) -> Iterator[Server]:
        """Start what the Deployment says, with the rights of its service account or of the kubeconfig it mounts."""
        admin = self._plane.api()
        stored = admin[f"/apis/apps/v1/namespaces/{self.namespace}/deployments/fleethook"]
        (container,) = stored["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["serve"]
        environment = environment_of(container)
        source = "FLEETHOOK_IN_CLUSTER" if kubeconfig is None else "FLEETHOOK_KUBECONFIG"
        for replaced in (source, "FLEETHOOK_CERT_DIR", "FLEETHOOK_HOST", "FLEETHOOK_PORT"):
            del environment[replaced]
        kubeconfig = kubeconfig or self._plane.kubeconfig(f"sa-{self.namespace}", {"token": self.token()})
        given = ["--kubeconfig", str(kubeconfig), "--port", str(self.port)]
        with serving(directory, *given, manifests=None, **environment) as server:
            wait_for(lambda: ready(server), what="the server is ready")
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


@pytest.fixture
def release(helm: Path, plane: ControlPlane, kubeconfig: Path, namespace: str) -> Iterator[Release]:
    made = Release(helm, plane, kubeconfig, namespace)
    made.install()
    yield made
    with contextlib.suppress(AssertionError):
        made.helm("uninstall", "fleethook")


def rights(documents: list[Any]) -> list[tuple[Right, tuple[str, ...]]]:
    """What roles allow, and the names that it is restricted to."""
    return [
        ((group, resource, verb), tuple(rule.get("resourceNames", ())))
        for document in documents
        if document["kind"] in ("ClusterRole", "Role")
        for rule in document["rules"] or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def used(plane: ControlPlane, account: str) -> set[Right]:
    """What an account has asked for, none of which was refused."""
    requests = list(plane.audited(account))
    assert [one for one in requests if one[3] in (401, 403)] == []
    return {(group, resource, verb) for group, resource, verb, _ in requests}


def granted(helm: Path, release: Release) -> set[Right]:
    return {right for right, _ in rights(template(helm, release.values, namespace=release.namespace))}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_no_right_is_given_twice(helm: Path, values: Values) -> None:
    given = rights(template(helm, values))
    assert sorted(given) == sorted(set(given))


def test_a_server_under_the_charts_roles_can_do_everything_and_is_given_no_more(
    helm: Path, plane: ControlPlane, admin: Api, release: Release, namespace: str, tmp_path: Path
) -> None:
    work = f"{namespace}-work"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": work}})
    with release.server(tmp_path) as server:
        wait_for(lambda: trusted(admin, server), what="the apiserver trusts it")
        deployments = Subject(admin, work, ["beijing", "hangzhou"])
        deployments.override(entry("hangzhou", items=TO_2))
        wait_for(lambda: deployments.status().get("summary") == "1/1")
        deployments.override(entry("beijing", "hangzhou", items=TO_3))
        wait_for(lambda: deployments.images() == {"beijing": "nginx:3.0", "hangzhou": "nginx:3.0"})
        deployments.delete_override()
        wait_for(lambda: set(deployments.images().values()) == {"nginx:1.0"})

        admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{work}2"}})
        stateful = Subject(admin, f"{work}2", ["hangzhou"], kind="StatefulSet")
        stateful.override(entry("*", items=TO_2))
        wait_for(lambda: stateful.status().get("summary") == "1/1")

        for subject in (deployments, stateful):
            edited_behind_its_back(admin, subject)
        daemon_reviewed(server)
        # A key that fits nothing has the Secret made anew.
        admin.merge(
            f"/api/v1/namespaces/{namespace}/secrets/fleethook-certs",
            {"data": {"tls.key": base64.b64encode(b"broken").decode()}},
        )
        wait_for(lambda: base64.b64decode(release.secret()["data"]["tls.key"]) != b"broken")
        log = server.log.read_text()
    assert "Forbidden" not in log
    assert used(plane, release.account) == granted(helm, release)


def edited_behind_its_back(admin: Api, subject: Subject) -> None:
    """Edit a rendered workload while the webhook is away, so that the controller has to look at it."""
    if subject.admin.call("GET", subject.rule)[0] != 200:
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: set(subject.images().values()) == {"nginx:2.0"})
    path = f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"
    kept = admin[path]
    admin.merge(path, {"webhooks": []})
    containers = [{"name": "nginx", "image": "edited:9"}]
    edit = {"spec": {"template": {"spec": {"containers": containers}}}}
    admin.merge(subject.paths["hangzhou"], edit)
    wait_for(lambda: subject.condition("Rendered")[1] == "NotRendered")
    admin.merge(path, {"webhooks": kept["webhooks"]})
    wait_for(lambda: subject.images()["hangzhou"] == "nginx:2.0")


def daemon_reviewed(server: Server) -> None:
    """The review of a workload whose YurtAppDaemon is not known yet: it is read live."""
    reference = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "new", "uid": "u"}
    metadata = {"name": "w", "namespace": "default", "ownerReferences": [{**reference, "controller": True}]}
    request = {
        "uid": "u", "operation": "CREATE", "namespace": "default",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}},
    }  # fmt: skip
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert server.request("POST", MUTATE, json.dumps(review).encode())[0] == 200


def test_upgrade_and_rollback_keep_the_ca_and_uninstall_leaves_what_is_not_its_own(
    admin: Api, release: Release, namespace: str, tmp_path: Path
) -> None:
    with release.server(tmp_path) as server:
        wait_for(lambda: trusted(admin, server), what="the apiserver trusts it")
        secret, bundles = release.secret()["data"], release.bundles()
        assert len(bundles) == 1
        release.values["replicas"] = 3
        release.values["webhooks"]["timeoutSeconds"] = 7
        release.helm("upgrade", "fleethook", str(CHART), "--values", "-")
        configuration = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]
        assert {webhook["timeoutSeconds"] for webhook in configuration["webhooks"]} == {7}
        assert (release.secret()["data"], release.bundles()) == (secret, bundles)
        release.helm("rollback", "fleethook", "1")
        configuration = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]
        assert {webhook["timeoutSeconds"] for webhook in configuration["webhooks"]} == {5}
        assert (release.secret()["data"], release.bundles()) == (secret, bundles)
    release.helm("uninstall", "fleethook")
    assert admin.call("GET", f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook")[0] == 404
    assert release.secret()["data"] == secret


def test_a_server_without_engines_starts_and_serves_none(
    helm: Path, plane: ControlPlane, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values["engines"] = {"overrider": {"enabled": False}}
    release.install()
    try:
        with release.server(tmp_path) as server:
            assert server.request("POST", MUTATE, b"{}")[0] == 404
    finally:
        release.helm("uninstall", "fleethook")


def environment_of(container: Any) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def pod_of(documents: list[Any]) -> Any:
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, (None, None)),
        (DISPATCH_ALONE, ("false", "false")),
        (DISPATCH_ELSEWHERE, ("true", "true")),
    ],
)
def test_private_webhooks_and_what_kcp_does_are_asked_for(helm: Path, values: Values, told: tuple[str, str]) -> None:
    environment = environment_of(pod_of(template(helm, values))["containers"][0])
    names = ("FLEETHOOK_PRIVATE_WEBHOOKS", "FLEETHOOK_DISPATCH_AS_KCP")
    assert tuple(environment.get(name) for name in names) == told


def readme_role() -> Any:
    (text,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    return yaml.safe_load(text)


def test_the_role_of_the_readme_is_that_of_the_chart(helm: Path) -> None:
    assert rights([readme_role()]) == rights(template(helm, DISPATCH_ALONE))


@pytest.mark.parametrize("mode", ["cert-manager", "existing"])
def test_a_server_of_a_kcp_elsewhere_is_given_nothing_in_its_own_cluster(helm: Path, mode: str) -> None:
    engines = {
        "overrider": {"enabled": True}, "interpret": {"enabled": True},
        "dispatch": {"enabled": True, "kubeconfigSecret": "kcp"},
    }  # fmt: skip
    documents = template(helm, {"engines": engines, "certificates": {"mode": mode}, "crds": {"subjects": True}})
    assert kinds(documents) - {"Certificate", "Issuer"} == {
        "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount",
    }  # fmt: skip
    pod = pod_of(documents)
    assert pod["automountServiceAccountToken"] is False
    environment = environment_of(pod["containers"][0])
    names = ("IN_CLUSTER", "KCP", "REGISTRATION", "CONTROLLER", "CERT_SECRET")
    assert [environment.get(f"FLEETHOOK_{name}") for name in names] == [None, "true", "off", "false", None]
    (volume,) = (volume for volume in pod["volumes"] if volume.get("secret", {}).get("secretName") == "kcp")
    (mount,) = (mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"])
    assert environment["FLEETHOOK_KUBECONFIG"] == f"{mount['mountPath']}/kubeconfig"


@contextlib.contextmanager
def dispatching(admin: Api, namespace: str) -> Iterator[str]:
    """A logical cluster with a namespace, and a webhook there that selects by both of what is asked for live."""
    cluster, path = f"ws-{namespace}", f"{WEBHOOKS}/validatingwebhookconfigurations"
    annotations = {"metadata": {"annotations": {"kcp.io/cluster": cluster}}}
    admin.merge(f"/api/v1/namespaces/{namespace}", annotations)
    condition = "authorizer.group('example.org').resource('widgets').check('guard').allowed()"
    hook = webhook(
        url="https://127.0.0.1:1/w",
        namespaceSelector={"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]},
        matchConditions=[{"name": "may-guard", "expression": condition}],
    )
    admin.create(path, configuration(cluster, "validating", hook, name=namespace))
    try:
        yield cluster
    finally:
        admin.delete(f"{path}/{namespace}")


def asked(server: Server, cluster: str, namespace: str, *groups: str) -> Any:
    made = widget()
    made["metadata"]["namespace"] = namespace
    body = json.dumps(review(made, userInfo={"username": "guard", "groups": list(groups)})).encode()
    status, answer = server.request("POST", f"/clusters/{cluster}/validate", body)
    assert status == 200, answer
    return json.loads(answer)["response"]


def everything_asked(server: Server, cluster: str, namespace: str) -> str:
    """Have a server ask for all that dispatching takes; return why the webhook could not be called."""

    def absent() -> bool:
        refused = asked(server, cluster, "no-such-namespace")
        return refused.get("status", {}).get("message") == 'namespaces "no-such-namespace" not found'

    wait_for(absent, what="the configuration is known")
    assert asked(server, cluster, namespace)["allowed"] is True
    message: str = asked(server, cluster, namespace, "system:masters")["status"]["message"]
    return message


def test_a_server_that_dispatches_is_given_what_it_uses_and_calls_no_private_address(
    helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, kcp_kinds: None, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values |= DISPATCH_ALONE
    release.install()
    try:
        with dispatching(admin, namespace) as cluster, release.server(tmp_path) as server:
            assert "127.0.0.1 is a private address" in everything_asked(server, cluster, namespace)
            wait_for(lambda: used(plane, release.account) == granted(helm, release), what="all of it is used")
    finally:
        release.helm("uninstall", "fleethook")


@contextlib.contextmanager
def kcp_paths(plane: ControlPlane) -> Iterator[tuple[str, list[str]]]:
    """The paths of kcp in front of an apiserver that has none of them; yields the address, and the clusters asked for."""
    clusters: list[str] = []

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, cluster, rest = self.path.split("/", 3)
            clusters.append(cluster)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
            context = ssl.create_default_context(cafile=str(plane.authority.certificate))
            behind = http.client.HTTPSConnection("127.0.0.1", plane.port, context=context)
            with contextlib.closing(behind):
                behind.request(self.command, f"/{rest}", body=body, headers=headers)
                answer = behind.getresponse()
                self.send_response(answer.status)
                self.end_headers()
                # Whoever watched has left, or the apiserver has ended.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while chunk := answer.read1(65536):
                        self.wfile.write(chunk)

        do_POST = do_GET  # noqa: N815 - of the base class

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as front:
        threading.Thread(target=front.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{front.server_address[1]}", clusters
        finally:
            front.shutdown()


def test_a_server_of_a_kcp_elsewhere_dispatches_by_the_role_of_the_readme(
    helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, kcp_kinds: None, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values |= DISPATCH_ELSEWHERE
    release.install()
    role = {**readme_role(), "metadata": {"name": f"{namespace}-kcp"}}
    admin.apply(f"{RBAC}/clusterroles/{namespace}-kcp", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{namespace}-kcp"}
    subjects = [{"kind": "ServiceAccount", "name": "fleethook", "namespace": namespace}]
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
    del binding["rules"]
    admin.apply(f"{RBAC}/clusterrolebindings/{namespace}-kcp", binding)
    try:
        with dispatching(admin, namespace) as cluster, kcp_paths(plane) as (address, clusters):
            mounted = plane.kubeconfig(f"kcp-{namespace}", {"token": release.token()}, server=address)
            with release.server(tmp_path, kubeconfig=mounted) as server:
                problem = everything_asked(server, cluster, namespace)
                wanted = {right for right, _ in rights([role])}
                wait_for(lambda: used(plane, release.account) == wanted, what="all of it is used")
            assert "private address" not in problem
            assert "connection refused" in problem
            assert set(clusters) == {"*", cluster}
    finally:
        release.helm("uninstall", "fleethook")
