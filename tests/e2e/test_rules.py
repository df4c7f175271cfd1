"""Admission rules in Python on a real apiserver: registration, refusal, reload, removal and outage."""

import base64
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import invoke
from tests.e2e.balancer import balancer
from tests.e2e.cluster import Api, ControlPlane, control_plane, free_port
from tests.e2e.conftest import new_namespace
from tests.e2e.fleet import WEBHOOKS, Fleet, is_ready, registering, service_account
from tests.serving import Server, serving
from tests.waiting import NET, wait_for

MUTATING = f"{WEBHOOKS}/mutatingwebhookconfigurations"
VALIDATING = f"{WEBHOOKS}/validatingwebhookconfigurations"
NAME = "fleethook-rules"

RULES = """\
from fleethook.admission import Denied, mutate, validate

@validate("apps/v1", "Deployment", on=("CREATE", "UPDATE"), namespace_selector={"matchLabels": {"team": "web"}})
def needs_owner(request):
    \"""Every Deployment names its owner.\"""
    if "owner" not in request.labels:
        raise Denied("label `owner` is missing", field="metadata.labels")

@mutate("v1", "Pod", on="CREATE")
def default_seccomp(pod):
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
"""
"""The example of the documentation."""
COUNTED = """
@validate("v1", "ConfigMap", on="CREATE", namespace_selector={"matchLabels": {"team": "web"}}, follows=("v1", "ConfigMap"))
def at_most_two(object, store, request):
    if len(list(store.each("v1", "ConfigMap", namespace=request.namespace))) >= 2:
        raise Denied("the namespace has two ConfigMaps")
"""
NO_LATEST = """
@validate("apps/v1", "Deployment", namespace_selector={"matchLabels": {"team": "web"}}, failure_policy="Ignore")
def no_latest(deployment):
    if deployment.spec.template.spec.containers[0].image.endswith(":latest"):
        raise Denied("use a fixed tag")
"""


def deployment(**labels: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "nginx:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generateName": "a-", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


@contextlib.contextmanager
def serving_rules(
    plane: ControlPlane, directory: Path, *arguments: str, account: Path | None = None
) -> Iterator[Server]:
    given = ["--rules", str(directory / "rules.py"), *registering(account or service_account(plane), free_port())]
    with serving(directory, *given, *arguments, manifests=None) as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        yield server


def webhooks(admin: Api, collection: str, name: str = NAME) -> list[Any] | None:
    status, found, _ = admin.call("GET", f"{collection}/{name}")
    return found.get("webhooks", []) if status == 200 else None


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module: rules and the uninstallation affect all other tests."""
    with control_plane(binaries, tmp_path_factory.mktemp("rules")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Api:
    return plane.api()


@pytest.fixture
def team(admin: Api) -> Iterator[str]:
    """A namespace that the rule selects, and that of no server, which rules leave out. No rule stays behind."""
    name = new_namespace(admin)
    admin.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"team": "web"}}})
    yield name
    for collection in (MUTATING, VALIDATING):
        admin.call("DELETE", f"{collection}/{NAME}")


def create(admin: Api, namespace: str, **labels: str) -> tuple[int, str]:
    status, answer, _ = admin.call("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(**labels))
    return status, answer.get("message", "")


def refused(admin: Api, namespace: str) -> str:
    """Return the message of a refusal, as soon as kube-apiserver knows the webhook."""

    def message() -> str:
        status, text = create(admin, namespace)
        return text if status != 201 else ""

    return wait_for(message, what="a Deployment is refused")


def test_the_example_is_registered_reloaded_and_removed(
    plane: ControlPlane, admin: Api, team: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(RULES)
    with serving_rules(plane, tmp_path) as server:
        (found,) = wait_for(lambda: webhooks(admin, VALIDATING), what="the validating webhook is registered")
        assert found["name"] == "needs-owner.rules.fleethook.io"
        assert found["rules"] == [
            {
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"],
                "scope": "*",
            }
        ]
        assert found["namespaceSelector"]["matchLabels"] == {"team": "web"}
        assert (found["failurePolicy"], found["sideEffects"], found["timeoutSeconds"]) == ("Fail", "None", 5)
        assert base64.b64decode(found["clientConfig"]["caBundle"]) == server.authority.read_bytes()
        (changes,) = wait_for(lambda: webhooks(admin, MUTATING), what="the mutating webhook is registered")
        assert (changes["name"], changes["failurePolicy"]) == ("default-seccomp.rules.fleethook.io", "Ignore")
        # Nothing else is registered: no other configuration, no CustomResourceDefinition.
        assert webhooks(admin, VALIDATING, "fleethook") is None
        assert webhooks(admin, MUTATING, "fleethook") is None

        message = refused(admin, team)
        assert message == (
            'admission webhook "needs-owner.rules.fleethook.io" denied the request: '
            "metadata.labels: label `owner` is missing"
        )
        code, printed = examine(plane)
        assert (code, printed[-1]) == (0, "0 errors, 0 warnings"), printed
        assert create(admin, team, owner="me")[0] == 201
        assert create(admin, "default")[0] == 201
        pod = {**deployment()["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
        pod["metadata"] = {"generateName": "a-"}
        made = admin.create(f"/api/v1/namespaces/{team}/pods", pod, dryRun="All")
        assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}

        rules.write_text("broken(")
        wait_for(lambda: b"the former rules stay" in server.request("GET", "/readyz")[1], what="the error is shown")
        assert is_ready(server)
        assert create(admin, team)[0] == 403
        rules.write_text(RULES.replace("is missing", "is not there").partition("@mutate")[0])
        wait_for(lambda: webhooks(admin, MUTATING) is None, what="the mutating webhook is gone")
        wait_for(lambda: create(admin, team)[1].endswith("is not there"), what="the new rule answers")

    # During an outage, the failure policy decides.
    message = create(admin, team)[1]
    assert message.startswith('Internal error occurred: failed calling webhook "needs-owner.rules.fleethook.io"')
    code, (first, *_) = examine(plane)
    begins = "error    outage: now refused: CREATE, UPDATE of deployments.apps, in namespaces with team=web, "
    assert (code, first.startswith(begins)) == (1, True), first
    assert ", because the apiserver cannot call needs-owner.rules.fleethook.io: " in first
    assert first.endswith("connect: connection refused")
    assert create(admin, "default")[0] == 201
    removed = invoke(["uninstall", "--kubeconfig", str(plane.kubeconfig("admin"))])
    assert f"ValidatingWebhookConfiguration {NAME}" in removed.stdout, removed
    assert webhooks(admin, VALIDATING) is None


def examine(plane: ControlPlane) -> tuple[int, list[str]]:
    """Return the exit code and the lines of `fleethook doctor`."""
    result = invoke(["doctor", "--kubeconfig", str(plane.kubeconfig("admin"))])
    return result.exit_code, result.stdout.splitlines()


@contextlib.contextmanager
def writing(admin: Api, namespace: str) -> Iterator[list[int]]:
    """Create Deployments with and without owner all the time, and yield their statuses. None may be a surprise."""
    statuses: list[int] = []
    surprises: list[str] = []
    stop = threading.Event()

    def write(owner: dict[str, str], expected: int) -> None:
        while not stop.is_set():
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            status, answer, _ = admin.call("POST", path, deployment(**owner), dryRun="All")
            statuses.append(status)
            if status != expected:
                surprises.append(f"{status} {answer.get('message')}")

    writers = [threading.Thread(target=write, args=one) for one in (({"owner": "ann"}, 201), ({}, 403))]
    for one in writers:
        one.start()
    try:
        yield statuses
    finally:
        stop.set()
        for one in writers:
            one.join(timeout=NET)
    assert surprises == []


def wait_for_writes(statuses: list[int]) -> None:
    before = len(statuses)
    wait_for(lambda: len(statuses) > before + 20, what="further writes are answered")


def test_a_rollout_of_a_rule_refuses_no_write_that_follows_both_versions(
    plane: ControlPlane, admin: Api, team: str, namespace: str, tmp_path: Path
) -> None:
    former, newer = tmp_path / "former.py", tmp_path / "newer.py"
    former.write_text(RULES.partition("@mutate")[0])
    newer.write_text(former.read_text() + NO_LATEST)
    with balancer() as front, contextlib.ExitStack() as stack:
        # As in the chart: without a delay, kube-apiserver may send a review while an idle connection is being closed.
        fleet = Fleet(plane, tmp_path, namespace, front, stack, FLEETHOOK_DRAIN_DELAY="1")
        replicas = [fleet.start("--rules", str(former)) for _ in range(2)]
        refused(admin, team)
        with writing(admin, team) as statuses:
            for one in replicas:
                fleet.start("--rules", str(newer))
                wait_for_writes(statuses)
                fleet.remove(one)
                one.stop()
                wait_for_writes(statuses)
            wait_for(lambda: len(webhooks(admin, VALIDATING) or ()) == 2, what="the new rule is registered")
            wait_for_writes(statuses)
        latest = deployment(owner="ann")
        latest["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:latest"

        def is_refused() -> bool:
            path = f"/apis/apps/v1/namespaces/{team}/deployments"
            return admin.call("POST", path, latest, dryRun="All")[0] == 403

        wait_for(is_refused, what="the new rule decides")


def test_a_rule_reads_other_objects_of_the_cluster(plane: ControlPlane, admin: Api, team: str, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES.partition("@validate")[0] + COUNTED)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    with serving_rules(plane, tmp_path):
        wait_for(lambda: webhooks(admin, VALIDATING), what="the webhook is registered")

        def message() -> str:
            status, answer, _ = admin.call("POST", f"/api/v1/namespaces/{team}/configmaps", body)
            return answer["message"] if status != 201 else ""

        assert wait_for(message, what="a ConfigMap is refused").endswith("the namespace has two ConfigMaps")
