"""The chart on a real apiserver: every manifest is accepted, a server runs with its roles, upgrades keep the CA."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.builders import entry
from tests.e2e.chart import (
    CHART,
    DISPATCH_ALONE,
    DISPATCH_ELSEWHERE,
    Release,
    Values,
    environment_of,
    kinds,
    pod_of,
    read_granted_rights,
    read_used_rights,
    rights,
    run,
    template,
)
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl
from tests.e2e.fleet import WEBHOOKS, is_trusted
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.serving import MUTATE, Server
from tests.waiting import wait_for

RULES = {"enabled": True, "files": {"rules.py": "from fleethook.admission import validate\n"}}
MATRIX: dict[str, Values] = {
    "defaults": {},
    "everything": {
        "networkPolicy": {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True, "annotations": {"grafana_folder": "admission"}},
        "tracing": {"endpoint": "http://collector:4318", "sample": 0.5},
        "clientCAConfigMap": "apiserver-ca",
        "crds": {"subjects": True},
        "settings": {"body_limit": 1048576, "resolve": ["hook.default.svc:443:10.0.0.7:8443"]},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "x"}],
        "record": {"enabled": True, "sample": 0.5, "redact": ["password", "Foo:/spec/*/key"]},
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "serviceAccount": {"annotations": {"e": "f"}},
        "service": {"annotations": {"g": "h"}},
        "webhooks": {"exemptNamespaces": ["kube-system"], "failurePolicy": "Ignore", "timeoutSeconds": 3},
        "image": {"digest": f"sha256:{'0' * 64}"},
    },
    "recording to a claim": {"record": {"enabled": True, "existingClaim": "records"}},
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
    "crds only": {"engines": {"overrider": {"enabled": False}, "crds": {"enabled": True}}},
    "interpret only": {"engines": {"overrider": {"enabled": False}, "interpret": {"enabled": True}}},
    "interpret, registered": {
        "engines": {"overrider": {"enabled": False}, "interpret": {"enabled": True, "register": "all"}},
        "certificates": {"mode": "cert-manager"},
    },
    "rules": {
        "engines": {
            "rules": {
                "enabled": True,
                "files": {"rules.py": "from fleethook.admission import validate\n"},
                "settings": {"team": "web"},
                "follows": [{"apiGroup": "", "resource": "configmaps"}],
            }
        }
    },
    "rules of one's own ConfigMap": {
        "engines": {"rules": {"enabled": True, "existingConfigMap": "mine", "keys": ["a.py", "b.py"]}}
    },
    "dispatch only": DISPATCH_ALONE,
    "every engine": {"engines": {"interpret": {"enabled": True}, "dispatch": {"enabled": True}}},
    "a kcp elsewhere": DISPATCH_ELSEWHERE,
    "every engine of a kcp elsewhere, cert-manager": {
        "engines": {
            "interpret": {"enabled": True},
            "dispatch": {"enabled": True, "kubeconfigSecret": "kcp", "cacheKubeconfigSecret": "cache"},
        },
        "certificates": {"mode": "cert-manager"},
    },
    "one replica, no budget": {"replicas": 1, "podDisruptionBudget": {"enabled": False}},
    "outside": {"webhooks": {"url": "https://webhooks.example.com:9443"}, "crds": {"install": False}},
}


def test_helm_lint_passes(helm: Path) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in run(helm, "lint", "--strict", CHART)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_an_apiserver_accepts_every_manifest_and_no_right_is_given_twice(
    helm: Path, binaries: Path, kubeconfig: Path, namespace: str, values: Values
) -> None:
    documents = template(helm, values, namespace=namespace)
    assert sorted(rights(documents)) == sorted(set(rights(documents)))
    # Helm decides the order of the manifests.
    text = yaml.safe_dump_all(documents)
    printed = kubectl(
        binaries, kubeconfig, "apply", "--dry-run=server", "--validate=strict", "--force-conflicts", "--server-side",
        "-f", "-", stdin=text,
    )  # fmt: skip
    assert len(printed.splitlines()) == len(documents)


def test_a_disabled_engine_has_no_manifests(helm: Path) -> None:
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
        ({"engines": {"interpret": {"enabled": True, "kubeconfigSecret": "kcp"}}}, "kubeconfigSecret"),
        ({"engines": {"dispatch": {"enabled": True, "kubeconfigSecret": "kcp"}}}, "set certificates.mode to"),
        ({"engines": {"dispatch": {"kubeconfigSecret": "kcp"}}}, "set engines.dispatch.enabled=true"),
        ({"engines": {"dispatch": {"cacheKubeconfigSecret": "c"}}}, "set engines.dispatch.kubeconfigSecret, too"),
        ({"engines": {"rules": {"enabled": True, "files": {"rules.txt": "a"}}}}, "rules"),
        ({"engines": {"rules": {"enabled": True, "existingConfigMap": "mine"}}}, "needs the names of its keys"),
        ({"crdsController": {"enabled": True, "besideOperators": True}}, "besideOperators"),
        ({"crdsController": {"enabled": True, "readSecrets": [""]}}, "readSecrets"),
        ({"crdsController": {"enabled": True, "localRoot": "tarballs"}}, "localRoot"),
        ({"crdsController": {"enabled": True, "persistence": {"accessModes": []}}}, "accessModes"),
        ({"crdsController": {"enabled": True, "replicas": 2}}, "ReadWriteMany"),
    ],
)
def test_meaningless_values_are_refused(helm: Path, values: Values, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        template(helm, values)


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("http://collector:4318", 4318), ("https://traces.example.org", 443), ("http://traces.example.org/base", 80)],
)
def test_a_collector_of_traces_is_named_and_may_be_reached(helm: Path, endpoint: str, port: int) -> None:
    values = {
        "tracing": {"endpoint": endpoint, "sample": 0.5}, "networkPolicy": {"enabled": True},
        "crdsController": {"enabled": True},
    }  # fmt: skip
    documents = template(helm, values)
    deployments = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Deployment"}
    server, controller = (
        deployments[name]["spec"]["template"]["spec"]["containers"][0] for name in ("fleethook", "fleethook-crds")
    )
    sampling = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}
    assert {"FLEETHOOK_OTLP_ENDPOINT": endpoint, **sampling}.items() <= environment_of(server).items()
    assert environment_of(controller) == sampling
    assert f"--otlp-endpoint={endpoint}" in controller["args"]
    policies = [one for one in documents if one["kind"] == "NetworkPolicy"]
    assert [{"port": port, "protocol": "TCP"} in one["spec"]["egress"][1]["ports"] for one in policies] == [True, True]


def test_rules_and_dashboard_are_those_of_the_files(helm: Path) -> None:
    documents = {one["kind"]: one for one in template(helm, MATRIX["everything"])}
    rules = yaml.safe_load((CHART / "monitoring" / "rules.yaml").read_text())
    assert documents["PrometheusRule"]["spec"] == rules
    (shown,) = documents["ConfigMap"]["data"].values()
    assert json.loads(shown) == json.loads((CHART / "monitoring" / "dashboard.json").read_text())
    assert documents["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert not {"PrometheusRule", "ConfigMap"} & {one["kind"] for one in template(helm, {})}


@pytest.mark.parametrize(
    ("case", "config_map", "files"),
    [("rules", "fleethook-rules", ["rules.py"]), ("rules of one's own ConfigMap", "mine", ["a.py", "b.py"])],
)
def test_rules_are_mounted_and_registered(helm: Path, case: str, config_map: str, files: list[str]) -> None:
    documents = template(helm, MATRIX[case])
    pod = pod_of(documents)
    environment = environment_of(pod["containers"][0])
    assert json.loads(environment["FLEETHOOK_RULES"]) == [f"/etc/fleethook/rules/{one}" for one in files]
    assert environment["FLEETHOOK_RULE_REGISTRATION"] == "true"
    assert {"name": "rules", "configMap": {"name": config_map}} in pod["volumes"]
    given = rights(documents)
    assert (("rbac.authorization.k8s.io", "clusterroles", "get"), ("fleethook",)) in given
    named = ("fleethook-rules",)
    assert (("admissionregistration.k8s.io", "validatingwebhookconfigurations", "delete"), named) in given


@pytest.mark.parametrize(
    ("engines", "served"),
    [
        ({}, ["overrider"]),
        ({"rules": RULES}, ["rules"]),
        ({"rules": RULES, "overrider": {"enabled": True}}, ["overrider", "rules"]),
        ({"overrider": {"enabled": False}, "crds": {"enabled": True}}, ["crds"]),
    ],
)
def test_rules_are_served_without_the_engine_of_openyurt(helm: Path, engines: Values, served: list[str]) -> None:
    documents = template(helm, {"engines": engines})
    assert json.loads(environment_of(pod_of(documents)["containers"][0])["FLEETHOOK_ENGINES"]) == served
    kinds = {one["kind"] for one in documents}
    assert ("CustomResourceDefinition" in kinds) is ("overrider" in served)
    assert ("MutatingWebhookConfiguration" in kinds) is (served != ["rules"])


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


# A subject is nudged only if its controller does not write for some time: tests/engines/overrider/controller/test_openyurt_waits_and_nudges.py.
NUDGES = {("apps.openyurt.io", plural, "patch") for plural in ("yurtappsets", "yurtappdaemons")}


def test_a_server_under_the_charts_roles_uses_every_right_and_needs_no_more(
    helm: Path, plane: ControlPlane, admin: Api, release: Release, namespace: str, tmp_path: Path
) -> None:
    work = f"{namespace}-work"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": work}})
    with release.server(tmp_path) as server:
        wait_for(lambda: is_trusted(admin, server), what="the apiserver trusts it")
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
        daemon_reviewed(admin, server)
        # The server replaces a Secret whose key does not match.
        admin.merge(
            f"/api/v1/namespaces/{namespace}/secrets/fleethook-certs",
            {"data": {"tls.key": base64.b64encode(b"broken").decode()}},
        )
        wait_for(lambda: base64.b64decode(release.secret()["data"]["tls.key"]) != b"broken")
        log = server.log.read_text()
    assert "Forbidden" not in log
    used = read_used_rights(plane, release.account) - NUDGES
    assert used == read_granted_rights(helm, release) - NUDGES


def edited_behind_its_back(admin: Api, subject: Subject) -> None:
    """Edit a rendered workload without the webhook, so that the controller has to find it."""
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


def daemon_reviewed(admin: Api, server: Server) -> None:
    """Send the review of a workload whose YurtAppDaemon and NodePool are not in the store, which needs live reads."""
    subject = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppDaemon", "name": "new"}
    rule = {
        "apiVersion": "apps.openyurt.io/v1alpha1", "kind": "YurtAppOverrider",
        "metadata": {"name": "new", "namespace": "default"}, "subject": subject,
        "entries": [{"poolSelector": {"matchLabels": {"region": "east"}}, "items": TO_2}],
    }  # fmt: skip
    admin.create("/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappoverriders", rule)
    metadata = {
        "name": "w", "namespace": "default", "labels": {"apps.openyurt.io/pool-name": "unknown"},
        "ownerReferences": [{**subject, "uid": "u", "controller": True}],
    }  # fmt: skip
    request = {
        "uid": "u", "operation": "CREATE", "namespace": "default",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {}},
    }  # fmt: skip
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert server.request("POST", MUTATE, json.dumps(review).encode())[0] == 200
    admin.delete("/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappoverriders/new")


def owned_by_fleethook(admin: Api) -> set[str]:
    """Return the managers of fleethook that own fields of the webhook configurations."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    entries = [one for kind in kinds for one in admin[f"{WEBHOOKS}/{kind}/fleethook"]["metadata"]["managedFields"]]
    return {one["manager"] for one in entries if one["manager"].startswith("fleethook")}


def test_the_install_page_has_the_error_of_helm_beside_openyurts_definition(release: Release) -> None:
    """The control plane has the definition from a client other than Helm; the release leaves it out."""
    release.helm("uninstall", "fleethook")
    release.values["crds"] = {"install": True}
    with pytest.raises(AssertionError) as failure:
        release.install()
    (found,) = re.findall(r"```text\n(Error: .*)\n```", (CHART.parent.parent / "docs/how-to/install.md").read_text())
    assert found in str(failure.value)


def test_upgrade_and_rollback_keep_the_ca_and_uninstall_leaves_foreign_objects(
    admin: Api, release: Release, namespace: str, tmp_path: Path
) -> None:
    with release.server(tmp_path) as server:
        wait_for(lambda: is_trusted(admin, server), what="the apiserver trusts it")
        secret, bundles = release.secret()["data"], release.bundles()
        assert len(bundles) == 1
        release.values["replicas"] = 3
        release.values["webhooks"]["timeoutSeconds"] = 7
        release.values["engines"] = {"crds": {"enabled": True}}
        release.helm("upgrade", "fleethook", str(CHART), "--values", "-")
        configuration = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]
        assert {webhook["timeoutSeconds"] for webhook in configuration["webhooks"]} == {7}
        wait_for(lambda: release.bundles() == bundles, what="the webhooks of the new engine have the bundle, too")
        # Helm could not remove these webhooks if fleethook owned their bundle.
        wait_for(lambda: not owned_by_fleethook(admin), what="fleethook owns no field")
        assert release.secret()["data"] == secret
        release.helm("rollback", "fleethook", "1")
        configuration = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]
        assert {webhook["timeoutSeconds"] for webhook in configuration["webhooks"]} == {5}
        assert (release.secret()["data"], release.bundles()) == (secret, bundles)
    release.helm("uninstall", "fleethook")
    assert admin.call("GET", f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook")[0] == 404
    assert release.secret()["data"] == secret
