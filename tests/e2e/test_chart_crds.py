"""The chart's controller for CRD tarballs: its settings, its rights, its volume, and its work with them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.commands import crds_controller
from fleethook.engines.crds.controller.instance_fetches import FetchOptions, Reach
from tests.cli.commands import invoke
from tests.e2e.chart import Release, Right, Values, read_used_rights, rights, run, template
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl
from tests.e2e.crds_controller import RULES, SYSTEM, KarmadaFactory, http, run_crds_controller
from tests.e2e.fleet import token
from tests.engines.crds.origin import Origin, hangs_up, serving
from tests.waiting import wait_for

NAME = "fleethook-crds"
ALONE: Values = {"besideOperator": False, "noPrivate": False, "readSecrets": True}
EVERYTHING: Values = {
    "version": "v1.18.0", "followInstance": True, "staleIfError": True, "strict": True,
    "allowHosts": ["mirror.example.com", ".corp"], "localRoot": "/var/lib/karmada/tar balls",
    "readSecrets": ["kube-system", "default"], "leaseNamespace": "default",
    "persistence": {"existingClaim": "shared", "accessModes": ["ReadWriteMany"]}, "replicas": 2,
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "x"}], "affinity": {"nodeAffinity": {}},
}  # fmt: skip
MATRIX: dict[str, Values] = {
    "defaults": {},
    "everything": EVERYTHING,
    "alone": {**ALONE, "leaseNamespace": "default"},
    "no volume": {"persistence": {"enabled": False}, "replicas": 2},
    "a class of storage": {"persistence": {"storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}},
}
AROUND: Values = {
    "networkPolicy": {"enabled": True}, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "imagePullSecrets": [{"name": "pull"}], "priorityClassName": "system-cluster-critical",
    "tolerations": [{"operator": "Exists"}], "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
}  # fmt: skip


def rendered(helm: Path, values: Values, **around: Any) -> list[Any]:
    """Return the rendered manifests of a release that belong to the controller, not to the server."""
    namespace = around.pop("namespace", "fleethook-system")
    documents = template(helm, {**around, "crdsController": {"enabled": True, **values}}, namespace=namespace)
    return [document for document in documents if document["metadata"]["labels"]["app.kubernetes.io/name"] == NAME]


def one(documents: list[Any], kind: str) -> Any:
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


def container_of(documents: list[Any]) -> Any:
    (found,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def test_no_controller_is_rendered_by_default(helm: Path) -> None:
    off = template(helm, {**AROUND, "crdsController": {**EVERYTHING, "enabled": False}})
    assert off == template(helm, AROUND)
    assert NAME not in str(off)


def test_selectors_of_the_server_do_not_match_the_controller(helm: Path) -> None:
    documents = template(helm, {**AROUND, "crdsController": {"enabled": True}})
    pods = [d["spec"]["template"]["metadata"]["labels"] for d in documents if d["kind"] == "Deployment"]
    selectors = [
        (document["kind"], selector)
        for document in documents
        for name in ("selector", "podSelector")
        if (selector := document.get("spec", {}).get(name))
    ]
    assert len(selectors) == 9
    for kind, selector in selectors:
        wanted = selector.get("matchLabels", selector)
        found = [labels for labels in pods if labels.items() >= wanted.items()]
        assert len(found) == 1, kind


def told(helm: Path, values: Values, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the settings of a process with the arguments of the Deployment."""
    seen: list[Any] = []
    monkeypatch.setattr(crds_controller, "run_controller", lambda *given: seen.append(given))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    container = container_of(rendered(helm, values))
    assert "command" not in container
    result = invoke(container["args"])
    assert result.exit_code == 0, result.output
    ((cache, options, place),) = seen
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert cache.directory == Path(mounts["data"], "cache")
    (port,) = container["ports"]
    assert (place.cluster.kubeconfig, place.host, place.port) == (None, "0.0.0.0", port["containerPort"])
    probes = {container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe")}
    assert (probes, container["readinessProbe"]["httpGet"]["path"]) == ({"/healthz"}, "/readyz")
    return options, place.namespace


def test_the_command_accepts_the_arguments_of_the_deployment(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(helm, {}, monkeypatch) == (FetchOptions(beside=True, reach=Reach(private=False)), "fleethook-system")
    alone = {"besideOperator": False, "noPrivate": False}
    assert told(helm, alone, monkeypatch) == (FetchOptions(), "karmada-system")
    assert told(helm, EVERYTHING, monkeypatch) == (
        FetchOptions(
            version="v1.18.0", beside=True, follow_instance=True, stale_if_error=True, strict=True,
            reach=Reach(
                private=False, hosts=("mirror.example.com", ".corp"), local=Path("/var/lib/karmada/tar balls")
            ),
        ),
        "default",
    )  # fmt: skip


def wanted(*, but: tuple[Right, ...] = ()) -> set[Right]:
    of_rules = {right for right, _ in rights([{"kind": "Role", "rules": RULES}])}
    return of_rules - set(but)


SECRETS: Right = ("", "secrets", "get")
KARMADAS_PATCH: Right = ("operator.karmada.io", "karmadas", "patch")


@pytest.mark.parametrize(
    ("values", "but"),
    [
        (ALONE, ()),
        ({"readSecrets": True}, (KARMADAS_PATCH,)),
        ({"readSecrets": ["a", "b"]}, (KARMADAS_PATCH,)),
        ({"besideOperator": False}, (SECRETS,)),
        ({}, (KARMADAS_PATCH, SECRETS)),
    ],
)
def test_its_rights_are_those_that_it_uses(helm: Path, values: Values, but: tuple[Right, ...]) -> None:
    documents = rendered(helm, values)
    assert {right for right, _ in rights(documents)} == wanted(but=but)
    # Its account has each of them once.
    bindings = [document for document in documents if document["kind"].endswith("Binding")]
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": "fleethook-system"}
    assert all(binding["subjects"] == [subject] for binding in bindings)
    roles = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in documents if "rules" in d}
    assert roles == {(d["roleRef"]["kind"], d["metadata"].get("namespace"), d["roleRef"]["name"]) for d in bindings}
    given = [(d["metadata"].get("namespace"), right) for d in documents for right in rights([d])]
    assert len(given) == len({str(one) for one in given})


@pytest.mark.parametrize(
    ("values", "namespace", "name"),
    [
        ({}, "fleethook-system", "fleethook-crds"),
        ({"besideOperator": False}, "karmada-system", "karmada-operator"),
        ({"besideOperator": False, "leaseNamespace": "operators"}, "operators", "karmada-operator"),
    ],
)
def test_it_may_have_the_lease_that_it_asks_for_and_no_other(
    helm: Path, values: Values, namespace: str, name: str
) -> None:
    role = one(rendered(helm, values), "Role")
    assert role["metadata"]["namespace"] == namespace
    assert [names for (_, _, verb), names in rights([role]) if verb != "create"] == [(name,), (name,)]


@pytest.mark.parametrize(
    ("persistence", "strategy", "volume"),
    [
        ({}, "Recreate", {"persistentVolumeClaim": {"claimName": "fleethook-crds"}}),
        ({"existingClaim": "shared"}, "Recreate", {"persistentVolumeClaim": {"claimName": "shared"}}),
        (
            {"accessModes": ["ReadWriteMany"]}, "RollingUpdate",
            {"persistentVolumeClaim": {"claimName": "fleethook-crds"}},
        ),
        ({"enabled": False}, "RollingUpdate", {"emptyDir": {"sizeLimit": "1Gi"}}),
    ],
)  # fmt: skip
def test_pods_are_replaced_as_their_volume_lets_them(
    helm: Path, persistence: Values, strategy: str, volume: Any
) -> None:
    documents = rendered(helm, {"persistence": persistence})
    spec = one(documents, "Deployment")["spec"]
    assert spec["strategy"]["type"] == strategy
    assert {"name": "data", **volume} in spec["template"]["spec"]["volumes"]
    claims = [document["metadata"]["name"] for document in documents if document["kind"] == "PersistentVolumeClaim"]
    assert claims == [claim for claim in ["fleethook-crds"] if "fleethook-crds" in str(volume)]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_an_apiserver_accepts_every_manifest_and_its_pods_under_the_restricted_standard(
    helm: Path, admin: Api, binaries: Path, kubeconfig: Path, namespace: str, values: Values
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    documents = rendered(helm, values, namespace=namespace, **AROUND)
    spec = dict(one(documents, "Deployment")["spec"]["template"]["spec"])
    for member in ("serviceAccountName", "priorityClassName"):
        del spec[member]
    metadata = {"name": "restricted", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    printed = kubectl(
        binaries, kubeconfig, "apply", "--dry-run=server", "--validate=strict", "--server-side", "-f", "-",
        stdin=yaml.safe_dump_all([*documents, pod]),
    )  # fmt: skip
    assert len(printed.splitlines()) == len(documents) + 1
    assert container_of(documents)["securityContext"]["readOnlyRootFilesystem"] is True


class Installed:
    """A release on a cluster, and its controller with the settings of the Deployment."""

    def __init__(self, release: Release, plane: ControlPlane, directory: Path) -> None:
        self.release, self._plane, self._directory = release, plane, directory
        self.account = f"system:serviceaccount:{release.namespace}:{NAME}"

    def install(self, values: Values) -> None:
        self.release.values["crdsController"] = {"enabled": True, **values}
        self.release.install()

    def controlling(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        admin, namespace = self._plane.api(), self.release.namespace
        deployment = admin[f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        before, _, after = " ".join(container["args"]).partition(" controller ")
        assert before == "crds --data-dir=/var/lib/karmada"
        for variable in container.get("env", ()):
            monkeypatch.setenv(variable["name"], variable["value"])
        kubeconfig = self._plane.kubeconfig(f"crds-{namespace}", {"token": token(admin, namespace, NAME)})
        elsewhere = [given for given in after.split() if not given.startswith(("--host=", "--port="))]
        return run_crds_controller(kubeconfig, self._directory, *elsewhere)


@pytest.fixture
def installed(
    helm: Path, plane: ControlPlane, kubeconfig: Path, account: Path, namespace: str, tmp_path: Path
) -> Iterator[Installed]:
    release = Release(helm, plane, kubeconfig, namespace)
    release.values["engines"] = {"overrider": {"enabled": False}}
    yield Installed(release, plane, tmp_path)
    run(helm, "uninstall", "fleethook", "--namespace", namespace, "--kubeconfig", kubeconfig)


def test_alone_under_the_charts_roles_it_uses_every_right_and_needs_no_more(
    installed: Installed,
    plane: ControlPlane,
    admin: Api,
    make: KarmadaFactory,
    namespace: str,
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = {"name": "HTTPS_PROXY", "value": "http://127.0.0.1:1"}
    installed.install({**ALONE, "extraEnv": [proxy, {"name": "NO_PROXY", "value": "127.0.0.1"}]})
    data = {"token": base64.b64encode(b"t").decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirror", "namespace": namespace}}
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", {**secret, "data": data})
    with serving(hangs_up) as down, installed.controlling(monkeypatch) as process:
        named = make(http(origin, secretRef={"name": "mirror"}), name="named")
        failing = make(http(down, timeoutSeconds=1), name="failing")
        wait_for(named.ready, what="it is ready")
        assert [asked.headers.get("authorization") for asked in origin.asked] == ["Bearer t"]
        # An entry belongs to its address, independent of the credentials of the download.
        named_too = make(http(origin), name="named-too")
        wait_for(lambda: named_too.has_condition("CRDsPrepared", "True", "Cached"))
        wait_for(lambda: any(count > 1 for _, _, count in failing.events()), what="an event is counted")
        admin.delete(named.path)
        wait_for(named.gone, what="it is deleted")
        assert process.get("/readyz")[0] == 200
        taken = read_used_rights(plane, installed.account)
    # The controller reads after a conflicting write only; there was none.
    assert wanted() - taken <= {("operator.karmada.io", "karmadas", "get")}
    assert taken <= wanted()
    lease = admin[f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/karmada-operator"]
    assert lease["spec"]["holderIdentity"] == "", "it is given back at the end"


def test_actions_that_the_values_forbid_are_reported_in_the_status(
    installed: Installed,
    plane: ControlPlane,
    admin: Api,
    make: KarmadaFactory,
    namespace: str,
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed.install({})
    with installed.controlling(monkeypatch):
        private = make(http(origin), name="private")
        secret = make(http(origin, secretRef={"name": "mirror"}), name="secret")
        wait_for(lambda: private.has_condition("CRDsPrepared", "False", "DownloadFailed"))
        wait_for(lambda: secret.has_condition("CRDsPrepared", "False", "SourceInvalid"))
        assert "private address" in private.condition("CRDsPrepared")[2]
        text = secret.condition("CRDsPrepared")[2]
        assert "cannot read secrets/mirror: " in text
        assert "forbidden" in text
        assert origin.asked == []
        assert set(private.conditions()) == {"CRDsPrepared"}
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/fleethook-crds"
    assert admin.call("GET", lease)[0] == 200


def test_a_namespace_whose_secrets_it_may_read_is_no_reason_to_read_others(
    installed: Installed,
    admin: Api,
    make: KarmadaFactory,
    namespace: str,
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed.install({"noPrivate": False, "readSecrets": [namespace]})
    other = KarmadaFactory(admin, SYSTEM)
    data = {"token": base64.b64encode(b"t").decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirror", "namespace": namespace}}
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", {**secret, "data": data})
    try:
        with installed.controlling(monkeypatch):
            allowed = make(http(origin, secretRef={"name": "mirror"}))
            elsewhere = other({"httpSource": {"url": f"{origin.url}?2", "secretRef": {"name": "mirror"}}})
            wait_for(lambda: allowed.has_condition("CRDsPrepared", "True", "Downloaded"))
            wait_for(lambda: elsewhere.has_condition("CRDsPrepared", "False", "SourceInvalid"))
            assert "forbidden" in elsewhere.condition("CRDsPrepared")[2]
    finally:
        other.remove_all()


def test_the_claim_outlives_the_release(installed: Installed, admin: Api, namespace: str) -> None:
    installed.install({})
    claim = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{NAME}"
    assert admin[claim]["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    installed.release.helm("uninstall", "fleethook")
    # Without a controller manager it would stay forever, with a deletion timestamp.
    assert "deletionTimestamp" not in admin[claim]["metadata"]
    # And the next release uses it again.
    installed.release.install()
