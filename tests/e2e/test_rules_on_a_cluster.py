"""Admission rules in Python that could harm a cluster, on a real apiserver: system objects, and objects older than a rule."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.admission.decorators_and_files import load_rules
from tests.cli.commands import invoke
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.fleet import NAMESPACE, service_account
from tests.e2e.test_rules import MUTATING, NAME, VALIDATING, serving_rules, webhooks
from tests.waiting import wait_for

EVERYTHING = """
from fleethook.admission import Denied, validate

@validate("*/*", "*", on="*")
def nothing_passes(request):
    raise Denied("nothing passes")
"""
PODS = """
from fleethook.admission import Denied, validate
from fleethook.model import Quantity

@validate("v1", "Pod")
def needs_owner(request):
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")

@validate("v1", "Pod")
def no_latest(pod):
    for kind in ("containers", "ephemeralContainers"):
        for index, one in enumerate(pod.spec.get(kind, [])):
            if one.image.endswith(":latest"):
                raise Denied("use a fixed tag", field=f"spec.{kind}[{index}].image")

@validate("v1", "Pod")
def max_memory(pod):
    for one in pod.spec.containers:
        limits = one.get("resources", {}).get("limits", {})
        if Quantity.parse(limits.get("memory", "0")) > Quantity.parse("1Gi"):
            raise Denied(f"{limits.memory} of memory are too much")
"""
OWNER = (
    'admission webhook "needs-owner.rules.fleethook.io" denied the request: metadata.labels: label `owner` is missing'
)


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module, because a rule refuses everything."""
    with control_plane(binaries, tmp_path_factory.mktemp("rules")) as running:
        yield running


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[Api]:
    admin = plane.api()
    yield admin
    for collection in (MUTATING, VALIDATING):
        admin.call("DELETE", f"{collection}/{NAME}")


def pod(name: str, image: str = "a:1", **metadata: Any) -> dict[str, Any]:
    container = {"name": "a", "image": image, "resources": {"limits": {"memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container]},
    }


def config_map(admin: Api, namespace: str) -> tuple[int, str]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    status, answer, _ = admin.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    return status, answer.get("message", "")


def list_system_writes(namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Return writes that a control plane needs, each with its path."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"generateName": "a-"}}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "a-"}, "type": "Normal", "reason": "A",
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "a"},
    }  # fmt: skip
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "a"}}
    access = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "a", "nonResourceAttributes": {"path": "/", "verb": "get"}},
    }  # fmt: skip
    service = {
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.example.com"},
        "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
    }  # fmt: skip
    system = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    return [
        ("/api/v1/namespaces/kube-system/configmaps", system),
        ("/api/v1/namespaces/kube-public/configmaps", system),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease),
        (f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease),
        (f"/api/v1/namespaces/{namespace}/events", event),
        ("/apis/authentication.k8s.io/v1/tokenreviews", token),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", access),
        ("/apis/apiregistration.k8s.io/v1/apiservices", service),
    ]


def test_a_rule_for_everything_locks_out_neither_a_control_plane_nor_its_server(
    plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "rules.py").write_text(EVERYTHING)
    account = service_account(plane)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    admin.delete(role)

    def write_all() -> None:
        for path, body in list_system_writes(namespace):
            status, answer, _ = admin.call("POST", path, body, dryRun="All")
            assert status == 201, (path, answer)

    with serving_rules(plane, tmp_path, account=account) as server:
        wait_for(lambda: config_map(admin, namespace)[0] == 403, what="a ConfigMap is refused")
        write_all()
        server.stop()
        assert server.process.stdout
        printed = server.process.stdout.read()
    # The webhook stays, and its server has stopped.
    assert "The webhooks stay registered" in printed
    assert "refused: CREATE, UPDATE, DELETE, CONNECT of every resource except Events, Leases, APIServices, " in printed
    assert f", except objects in {NAMESPACE}, kube-system" in printed
    assert f"kubectl --kubeconfig={account} delete validatingwebhookconfiguration/{NAME}" in printed
    assert config_map(admin, namespace)[0] == 500
    write_all()
    # At its start, kube-apiserver creates those of its own ClusterRoles that are missing, and ends if it cannot.
    plane.kill("kube-apiserver")
    plane.start_apiserver()
    wait_for(lambda: admin.call("GET", role)[0] == 200, what="kube-apiserver creates its ClusterRole")
    with serving_rules(plane, tmp_path, "--unregister-on-exit", account=account) as server:
        wait_for(lambda: config_map(admin, namespace)[0] == 403, what="the server is registered again")
        assert config_map(admin, namespace)[1].endswith("denied the request: nothing passes")
        server.stop()
        assert server.process.stdout
        assert "webhooks stay" not in server.process.stdout.read()
    assert webhooks(admin, VALIDATING) is None
    wait_for(lambda: config_map(admin, namespace)[0] == 201, what="a ConfigMap is created")


def update(admin: Api, path: str, body: dict[str, Any], subresource: str = "") -> tuple[int, str, list[str]]:
    target = f"{path}/{subresource}" if subresource else path
    status, answer, warnings = admin.call("PATCH", target, body, content_type="application/strategic-merge-patch+json")
    return status, answer.get("message", ""), warnings


def test_objects_that_are_older_than_a_rule_can_be_changed_and_get_no_further_violation(
    plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name, image in (("finished", "a:1"), ("latest", "a:latest")):
        admin.create(pods, pod(name, image, finalizers=["batch.kubernetes.io/job-tracking"]))
    (tmp_path / "rules.py").write_text(PODS)
    with serving_rules(plane, tmp_path):
        wait_for(lambda: len(webhooks(admin, VALIDATING) or ()) == 3, what="the rules are registered")
        refused = wait_for(
            lambda: answer[1] if (answer := admin.call("POST", pods, pod("new"), dryRun="All"))[0] == 403 else None,
            what="a new Pod is refused",
        )
        assert refused["message"] == OWNER

        status, message, warnings = update(admin, f"{pods}/finished", {"metadata": {"finalizers": None}})
        assert (status, message) == (200, "")
        text = "the stored object breaks the rule needs-owner, too, so the update is admitted: "
        assert [one for one in warnings if text in one], warnings
        assert update(admin, f"{pods}/finished", {"spec": {"containers": [{"name": "a", "image": "a:2"}]}})[0] == 200
        # The stored Pod has this tag in a container already.
        debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug:latest"}]}}
        status, message, _ = update(admin, f"{pods}/latest", debug, "ephemeralcontainers")
        assert (status, message.partition("denied the request: ")[2]) == (
            403,
            "spec.ephemeralContainers[0].image: use a fixed tag",
        )
        debug["spec"]["ephemeralContainers"][0]["image"] = "debug:1"
        assert update(admin, f"{pods}/latest", debug, "ephemeralcontainers")[0] == 200
        larger = {
            "spec": {
                "containers": [{"name": "a", "resources": {"limits": {"memory": "2Gi"}, "requests": {"memory": "2Gi"}}}]
            }
        }
        status, message, _ = update(admin, f"{pods}/finished", larger, "resize")
        assert (status, message.partition("denied the request: ")[2]) == (403, "2Gi of memory are too much")


def deployment(name: str, *images: str) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }  # fmt: skip


def test_the_server_review_tests_and_apply_say_the_same_about_a_template(
    plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "rules.py"
    file.write_text(PODS.replace('"Pod")\ndef no_latest', '"Pod", templates=True)\ndef no_latest'))
    message = "spec.template.spec.containers[1].image: use a fixed tag"
    path, refused = f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("new", "a:1", "b:latest")
    admin.create(path, deployment("old", "a:1", "b:latest"))
    admin.create(path, deployment("good", "a:1"))
    with serving_rules(plane, tmp_path):
        wait_for(lambda: len(webhooks(admin, VALIDATING) or ()) == 3, what="the rules are registered")
        answer = wait_for(
            lambda: found[1] if (found := admin.call("POST", path, refused, dryRun="All"))[0] == 403 else None,
            what="a new Deployment is refused",
        )
        assert answer["message"] == f'admission webhook "no-latest.rules.fleethook.io" denied the request: {message}'
        assert update(admin, f"{path}/good", {"spec": {"replicas": 2}})[:2] == (200, "")
        status, problem, warnings = update(admin, f"{path}/old", {"spec": {"replicas": 2}})
        assert (status, problem, [message in one for one in warnings]) == (200, "", [True])
        further = {"spec": {"template": {"spec": {"containers": [{"name": "c0", "image": "a:latest"}]}}}}
        status, problem, _ = update(admin, f"{path}/old", further)
        assert (status, problem.partition("denied the request: ")[2]) == (403, message.replace("[1]", "[0]"))
    manifest = tmp_path / "m.yaml"
    manifest.write_text(json.dumps({**refused, "metadata": {"name": "new", "namespace": namespace}}))
    kubeconfig = plane.kubeconfig("reader")
    for source, name in ((("-f", str(manifest)), "new"), (("--kubeconfig", str(kubeconfig), "-n", namespace), "old")):
        applied = invoke(["rules", "apply", str(file), *source, "-o", "json"])
        results = [one for one in json.loads(applied.stdout)["results"] if one["rule"] == "no-latest"]
        assert [(one["kind"], one["name"], one["message"]) for one in results] == [("Deployment", name, message)]
        assert applied.exit_code == 1
    (rule,) = (one for one in load_rules([file]) if one.name == "no-latest")
    assert rule.review(refused).message == message
    expected = {"name": "t", "rule": "no-latest", "object": refused, "output": {"allowed": False, "message": message}}
    (tmp_path / "rules_test.yaml").write_text(json.dumps({"rules": ["rules.py"], "tests": [expected]}))
    assert invoke(["rules", "test", str(tmp_path / "rules_test.yaml")]).exit_code == 0


def test_a_mirror_of_a_static_pod_is_not_refused(
    plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (tmp_path / "rules.py").write_text(PODS)
    mirror = pod("mirror", annotations={"kubernetes.io/config.mirror": "a"})
    mirror["spec"]["nodeName"] = "node"
    with serving_rules(plane, tmp_path):
        wait_for(lambda: admin.call("POST", pods, pod("new"), dryRun="All")[0] == 403, what="a new Pod is refused")
        status, answer, _ = admin.call("POST", pods, mirror, dryRun="All")
        assert status == 201, answer
