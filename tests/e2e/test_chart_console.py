"""The chart's console: its arguments, its rights, and its pages with them."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.leader_election import NAME as LEASE_NAME
from fleethook.console.sections import list_sections
from tests.e2e.chart import Release, Values, environment_of, rights, run, template
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl
from tests.e2e.test_console_access import Console, create_account, list_followed
from tests.serving import started
from tests.waiting import wait_for

NAME = "fleethook-console"
SHARED: Values = {"record": {"enabled": True, "existingClaim": "records"}}
EVERYTHING: Values = {
    "certificateSecret": "tls", "clientCAConfigMap": "clients", "allowedHosts": ["console.example.com", "10.0.0.1"],
    "playground": False, "records": True, "from": [{"podSelector": {}}], "podLabels": {"a": "b"},
    "service": {"type": "NodePort", "annotations": {"x": "z"}}, "podAnnotations": {"c": "d"},
    "extraEnv": [{"name": "A", "value": "b"}], "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}},
}  # fmt: skip
MATRIX: dict[str, tuple[Values, Values]] = {"defaults": ({}, {}), "everything": (EVERYTHING, SHARED)}
AROUND: Values = {
    "networkPolicy": {"enabled": True}, "imagePullSecrets": [{"name": "pull"}],
    "priorityClassName": "system-cluster-critical",
}  # fmt: skip


def rendered(helm: Path, values: Values, *, namespace: str = "fleethook-system", **around: Any) -> list[Any]:
    """Return the rendered manifests of a release that belong to the console."""
    documents = template(helm, {**around, "console": {"enabled": True, **values}}, namespace=namespace)
    return [document for document in documents if document["metadata"]["labels"]["app.kubernetes.io/name"] == NAME]


def one(documents: list[Any], kind: str) -> Any:
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


def container_of(documents: list[Any]) -> Any:
    (found,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def test_no_console_is_rendered_by_default(helm: Path) -> None:
    off = template(helm, {**AROUND, **SHARED, "console": {**EVERYTHING, "enabled": False}})
    assert off == template(helm, {**AROUND, **SHARED})
    assert NAME not in str(off)


def test_selectors_match_the_pods_of_one_deployment(helm: Path) -> None:
    documents = template(helm, {**AROUND, "console": {"enabled": True}, "crdsController": {"enabled": True}})
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in documents if d["kind"] == "Deployment"]
    assert len(pods) == 3
    for document in documents:
        for name in ("selector", "podSelector"):
            if selector := document.get("spec", {}).get(name):
                wanted = selector.get("matchLabels", selector)
                assert len([labels for labels in pods if labels.items() >= wanted.items()]) == 1, document


def test_the_console_reads_and_asks_for_nothing_else(helm: Path) -> None:
    given = [(right, names) for right, names in rights(rendered(helm, {}))]
    assert {verb for (_, _, verb), _ in given} == {"list", "watch", "create", "get"}
    assert [(resource, names) for (_, resource, verb), names in given if verb == "get"] == [
        ("deployments", ()), ("statefulsets", ()), ("leases", (LEASE_NAME,)),
    ]  # fmt: skip
    asked = {(group, resource) for (group, resource, verb), _ in given if verb == "create"}
    assert asked == {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}
    assert [names for (_, resource, _), names in given if resource == "configmaps"] == [("karmada-config",)] * 2
    assert all(resource != "secrets" for (_, resource, _), _ in given)


def test_it_may_list_and_watch_the_kinds_that_the_console_follows_and_no_other(helm: Path, kubeconfig: Path) -> None:
    followed = list_followed(kubeconfig)
    assert {("apps.openyurt.io", "yurtappoverriders"), ("apps", "deployments"), ("", "configmaps")} <= followed
    given = {right for right, _ in rights(rendered(helm, {}))}
    for verb, on_demand in (("list", {("", "events")}), ("watch", set[tuple[str, str]]())):
        assert {(group, resource) for group, resource, other in given if other == verb} == followed | on_demand


def test_volumes_are_those_of_the_values(helm: Path) -> None:
    def volumes(values: Values, **around: Any) -> dict[str, Any]:
        documents = rendered(helm, values, **around)
        mounted = {one["name"] for one in container_of(documents)["volumeMounts"]}
        found = {one["name"]: one for one in one_spec(documents)["volumes"]}
        assert mounted == found.keys()
        return found

    def one_spec(documents: list[Any]) -> Any:
        return one(documents, "Deployment")["spec"]["template"]["spec"]

    assert volumes({}).keys() == {"run"}
    found = volumes(EVERYTHING, **SHARED)
    assert found["records"]["persistentVolumeClaim"] == {"claimName": "records", "readOnly": True}
    assert found["certs"]["secret"] == {"secretName": "tls"}
    assert found["client-ca"]["configMap"] == {"name": "clients"}
    arguments = container_of(rendered(helm, EVERYTHING, **SHARED))["args"]
    assert {"--no-playground", "--records=/var/lib/fleethook/records", "--allowed-host=10.0.0.1"} <= set(arguments)


def test_server_and_console_read_the_same_interpreters(helm: Path) -> None:
    modules = ["company.interpreters", "/opt/company/database.py"]
    engine = {"enabled": True, "modules": modules}
    documents = template(helm, {"console": {"enabled": True}, "engines": {"interpret": engine}})
    deployments = [one for one in documents if one["kind"] == "Deployment"]
    (server,) = (one for one in deployments if not one["metadata"]["name"].endswith("-console"))
    container = server["spec"]["template"]["spec"]["containers"][0]
    (variable,) = (one for one in container["env"] if one["name"] == "FLEETHOOK_INTERPRETERS")
    assert json.loads(variable["value"]) == modules
    arguments = container_of(rendered(helm, {}, engines={"interpret": engine}))["args"]
    assert [one for one in arguments if "interpreters" in one] == [f"--interpreters={one}" for one in modules]


@pytest.mark.parametrize(("values", "around"), MATRIX.values(), ids=MATRIX)
def test_an_apiserver_accepts_every_manifest(
    helm: Path, binaries: Path, kubeconfig: Path, namespace: str, values: Values, around: Values
) -> None:
    documents = rendered(helm, values, namespace=namespace, **AROUND, **around)
    printed = kubectl(
        binaries, kubeconfig, "apply", "--dry-run=server", "--validate=strict", "--server-side", "-f", "-",
        stdin=yaml.safe_dump_all(documents),
    )  # fmt: skip
    assert len(printed.splitlines()) == len(documents)


@pytest.mark.parametrize(("values", "around"), MATRIX.values(), ids=MATRIX)
def test_pods_meet_the_restricted_pod_security_standard(
    helm: Path, admin: Api, kubeconfig: Path, binaries: Path, namespace: str, values: Values, around: Values
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    spec = one(rendered(helm, values, **around), "Deployment")["spec"]["template"]["spec"]
    del spec["serviceAccountName"]
    metadata = {"name": "restricted", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    kubectl(binaries, kubeconfig, "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
    assert container_of(rendered(helm, values, **around))["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("values", "around", "problem"),
    [
        ({"playgrounds": True}, {}, "playgrounds"),
        ({"allowedHosts": [""]}, {}, "allowedHosts"),
        ({"records": True}, {}, "record.existingClaim"),
        ({"records": True}, {"record": {"enabled": True}}, "record.existingClaim"),
        (
            {},
            {
                "engines": {"dispatch": {"enabled": True, "kubeconfigSecret": "kcp"}},
                "certificates": {"mode": "existing"},
            },
            "users of logical clusters",
        ),
    ],
)
def test_meaningless_values_are_refused(helm: Path, values: Values, around: Values, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        rendered(helm, values, **around)


@contextlib.contextmanager
def running(plane: ControlPlane, namespace: str, directory: Path) -> Iterator[Console]:
    """Start the console of the Deployment with the rights of its service account."""
    admin = plane.api()
    deployment = admin[f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{NAME}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = admin.create(path, request)["status"]["token"]
    kubeconfig = plane.kubeconfig(f"console-{namespace}", {"token": token})
    replaced = {
        "--in-cluster": f"--kubeconfig={kubeconfig}", "--port=9444": "--port=0",
        "--cert-dir=/var/run/fleethook/certs": f"--cert-dir={directory / 'certs'}",
        "--crd-cache=/var/run/fleethook/crds": f"--crd-cache={directory / 'crds'}",
    }  # fmt: skip
    arguments = [replaced.pop(given, given) for given in container["args"]]
    assert replaced == {}
    command = [sys.executable, "-m", "fleethook", *arguments]
    environment = environment_of(container)
    # The certificate of a test has the names of this machine.
    assert f"{NAME}.{namespace}.svc" in environment.pop("FLEETHOOK_DNS_NAMES")
    with started(command, directory / "log", r"console: https://0\.0\.0\.0:(\d+)/", **environment) as (_, port):
        yield Console(port, directory / "certs" / "ca.crt")


def test_under_the_charts_role_it_serves_all_pages(
    helm: Path, plane: ControlPlane, admin: Api, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values |= {"engines": {"overrider": {"enabled": False}}, "console": {"enabled": True}}
    release.install()
    try:
        subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}
        token = create_account(admin, namespace, "viewer")
        meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"viewer-{namespace}"}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        admin.create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {**meta, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
        )
        with running(plane, namespace, tmp_path) as console:
            wait_for(lambda: console.ask_once("/readyz", form=None, client=None, headers={})[0] == 200)
            assert console.request("/overriders")[0] == 401
            for section in list_sections():
                status, text = console.get(section.path, token)
                assert (status, section.title in text) == (200, True), section.path
    finally:
        run(helm, "uninstall", "fleethook", "--namespace", namespace, "--kubeconfig", kubeconfig)
