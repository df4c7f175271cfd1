"""Dry runs of rendered workloads at a real kube-apiserver, before an overrider or a subject is admitted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import entry, overrider, patch
from tests.cli.commands import invoke
from tests.e2e.cluster import Api, ControlPlane, RefusedError
from tests.e2e.fleet import ACCOUNT, RBAC, RULES, run_registered_server
from tests.e2e.subject import Subject
from tests.serving import Server

# The offline rules do not check the values of Kubernetes' own annotations.
COST = "controller.kubernetes.io/pod-deletion-cost"
INVALID = patch("add", "/spec/template/metadata/annotations", {COST: "much"})
TEXT = "kube-apiserver refuses the Deployment: "
POOLS = ["beijing", "hangzhou", "shanghai"]


@pytest.fixture(scope="module")
def server(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_registered_server(plane, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def subject(admin: Api, namespace: str) -> Subject:
    return Subject(admin, namespace, POOLS)


def test_an_overrider_is_refused_with_the_message_of_kube_apiserver(server: Server, subject: Subject) -> None:
    with pytest.raises(RefusedError) as refused:
        subject.override(entry("*", patches=[INVALID]))
    (cause,) = refused.value.body["details"]["causes"]
    assert cause["field"] == "entries[0].patches[0]"
    assert cause["message"].startswith(f"node pool beijing: {TEXT}")


def test_a_quota_does_not_refuse_an_overrider(server: Server, subject: Subject, admin: Api, namespace: str) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/deployments.apps": "0"}}}
    admin.create(
        f"/api/v1/namespaces/{namespace}/resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", **quota}
    )
    subject.override(entry("*", items=[{"replicas": 2}]))


def test_a_command_sends_the_same_dry_run(
    server: Server, subject: Subject, plane: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    subject.override(entry("*", items=[{"replicas": 2}]))
    kubeconfig = plane.kubeconfig("dry-run")
    change = tmp_path / "rule.yaml"
    rule = {**overrider(entry("*", patches=[INVALID])), "metadata": {"name": "demo1", "namespace": namespace}}
    change.write_text(yaml.safe_dump(rule))
    result = invoke(["lint", "--kubeconfig", str(kubeconfig), "--change", str(change)])
    assert (result.exit_code, TEXT in result.stdout) == (1, True), result.output


def test_without_the_right_the_rules_decide(server: Server, subject: Subject, admin: Api) -> None:
    role: dict[str, Any] = admin[f"{RBAC}/clusterroles/{ACCOUNT}"]
    kept = [rule for rule in RULES if rule["verbs"] != ["create"] or rule["apiGroups"] != ["apps"]]
    admin.replace(f"{RBAC}/clusterroles/{ACCOUNT}", {**role, "rules": kept})
    subject.override(entry("*", items=[{"replicas": 2}]))
    admin.replace(f"{RBAC}/clusterroles/{ACCOUNT}", {**admin[f"{RBAC}/clusterroles/{ACCOUNT}"], "rules": RULES})
    assert "lacks the right to create" in server.log.read_text()
