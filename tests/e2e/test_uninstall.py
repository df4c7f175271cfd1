"""After `fleethook uninstall`, nothing of fleethook is in the cluster, and workloads are as if they never had an overrider."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.builders import entry, image, patch
from tests.cli.commands import Result, invoke
from tests.e2e.chart import Release
from tests.e2e.cluster import CRDS, Api, ControlPlane, RefusedError, control_plane
from tests.e2e.conftest import install_crds, new_namespace
from tests.e2e.fleet import WEBHOOKS, grant, is_trusted
from tests.e2e.installation import Installation
from tests.e2e.karmada_crds import install_karmada_crds
from tests.e2e.subject import Subject
from tests.waiting import wait_for

POOLS = ["beijing", "hangzhou"]
RICH = [
    image("nginx", "nginx:2.0"),
    {"replicas": 5},
]
PATCHES = [
    patch("add", "/spec/template/spec/containers/0/livenessProbe", {"httpGet": {"path": "/h", "port": 80}}),
    patch("add", "/spec/template/spec/containers/-", {"name": "sidecar", "image": "sidecar:1"}),
    patch("add", "/metadata/annotations/example.org~1team", "edge"),
]
KARMADA = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/fleethook"


@pytest.fixture(scope="module")
def plane(binaries: Path, controller_manager: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module: the command looks at the whole cluster."""
    with control_plane(binaries, tmp_path_factory.mktemp("uninstall")) as running:
        running.start_controller_manager(controller_manager, "namespace-controller,garbage-collector-controller")
        install_crds(running.api())
        install_karmada_crds(running.api())
        yield running


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Api:
    return plane.api()


def uninstall(plane: ControlPlane, *options: str, kubeconfig: Path | None = None) -> Result:
    return invoke(["uninstall", "--kubeconfig", str(kubeconfig or plane.kubeconfig("remover")), *options])


def find_traces(admin: Api) -> list[str]:
    """Return the objects of all served resources that mention fleethook, without definitions, and events, which expire."""
    groups = ["/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in admin["/apis"]["groups"])]
    traces = []
    for group in groups:
        for resource in admin[group]["resources"]:
            if "list" not in resource["verbs"] or resource["name"] in ("events", "customresourcedefinitions"):
                continue
            for item in admin[f"{group}/{resource['name']}"]["items"]:
                item["metadata"].pop("managedFields", None)
                if "fleethook" in json.dumps(item) or "LastOverrideTime" in json.dumps(item):
                    traces.append(f"{resource['name']} {item['metadata']['name']}")
    return traces


def parts(workload: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a workload that an overrider may change."""
    metadata = workload["metadata"]
    # OpenYurt's controller always sets this annotation, `Subject` does not.
    annotations = {"apps.openyurt.io/patch": "", **metadata.get("annotations", {})}
    return {"spec": workload["spec"], "labels": metadata["labels"], "annotations": annotations}


def check_no_override(*subjects: Subject) -> None:
    """Compare the workloads with those of a subject that never had an overrider."""
    for subject in subjects:
        other = Subject(subject.admin, new_namespace(subject.admin), POOLS, kind=kind_of(subject))
        for name in subject.paths:
            assert parts(subject.workload(name)) == parts(other.workload(name))


def kind_of(subject: Subject) -> str:
    templates = subject.stored["spec"]["workloadTemplate"]
    return "Deployment" if "deploymentTemplate" in templates else "StatefulSet"


def rows(result: Result) -> list[list[str]]:
    """Return the words of each line of the output, without its action; the order of workloads is not fixed."""
    return sorted(line.replace("would ", "").split()[1:] for line in result.stdout.splitlines()[:-1])


@pytest.fixture
def subjects(admin: Api) -> Iterator[list[Subject]]:
    made = [Subject(admin, new_namespace(admin), POOLS, kind=kind) for kind in ("Deployment", "StatefulSet")]
    yield made
    for one in made:
        admin.call("DELETE", one.rule)


def test_a_chart_whose_namespace_was_deleted_leaves_nothing(
    helm: Path, plane: ControlPlane, admin: Api, subjects: list[Subject], tmp_path: Path
) -> None:
    release = Release(helm, plane, plane.kubeconfig("remover"), new_namespace(admin))
    release.values["engines"] = {"interpret": {"enabled": True, "register": "missing"}}
    release.install()
    with release.server(tmp_path) as server:
        wait_for(partial(is_trusted, admin, server), what="the apiserver trusts the server")
        for one in subjects:
            one.override(entry("*", items=RICH, patches=PATCHES))
            wait_for(lambda one=one: set(one.images().values()) == {"nginx:2.0"}, what="the workloads are rendered")
        wait_for(lambda: admin.call("GET", KARMADA)[0] == 200, what="the interpreters are registered")
        early = uninstall(plane)
        assert (early.exit_code, "which would register again" in early.stderr) == (2, True)
        assert f"kubectl scale --replicas=0 -n {release.namespace} deployment/fleethook" in early.stderr
        assert early.stdout == ""
        server.process.kill()
    admin.delete(f"/api/v1/namespaces/{release.namespace}")
    wait_for(lambda: admin.call("GET", f"/api/v1/namespaces/{release.namespace}")[0] == 404)
    path = subjects[0].paths["beijing"]
    with pytest.raises(RefusedError, match="failed calling webhook"):
        admin.merge(path, {"metadata": {"labels": {"a": "b"}}})

    planned = uninstall(plane, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "would delete   MutatingWebhookConfiguration fleethook\n" in planned.stdout
    done = uninstall(plane)
    assert done.exit_code == 0, done.output
    assert rows(done) == rows(planned)
    assert [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("restored")] != []
    for one in subjects:
        admin.delete(one.rule)
    assert find_traces(admin) == []
    check_no_override(*subjects)
    admin.merge(path, {"metadata": {"labels": {"a": "b"}}})
    again = uninstall(plane)
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "nothing of fleethook is registered")


def test_a_server_that_registered_itself_is_removed_with_all_that_can_be_restored(
    plane: ControlPlane, admin: Api, subjects: list[Subject], tmp_path: Path
) -> None:
    installation = Installation(plane, tmp_path)
    orphan, damaged = (Subject(admin, new_namespace(admin), ["beijing"]) for _ in range(2))
    with installation.up() as server:
        for one in (*subjects, orphan, damaged):
            one.override(entry("*", items=RICH))
            wait_for(lambda one=one: set(one.images().values()) == {"nginx:2.0"}, what="the workloads are rendered")
        assert server.stop() == 0
    configurations = [
        f"{WEBHOOKS}/{kind}/fleethook" for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    ]
    unsent = {"metadata": {"annotations": {"fleethook.io/undo": "{"}}}
    for path in configurations:
        admin.delete(path)
    wait_for(
        lambda: (
            admin.call("PATCH", damaged.paths["beijing"], unsent, content_type="application/merge-patch+json")[0] == 200
        )
    )
    admin.merge(orphan.paths["beijing"], {"metadata": {"ownerReferences": None}})
    before = [one.workload("beijing") for one in (orphan, damaged)]
    for one in (orphan, damaged):
        admin.delete(one.rule)

    # A user who may not write workloads: the rest is removed, and an administrator completes it.
    limited = limited_user(plane, admin)
    partly = uninstall(plane, kubeconfig=limited)
    assert partly.exit_code == 1
    assert partly.stderr.count("add to a ClusterRole") == 1
    assert '{apiGroups: ["apps"], resources: [deployments, statefulsets], verbs: [patch]}' in partly.stderr
    assert [one.images() for one in subjects] == [dict.fromkeys(POOLS, "nginx:2.0")] * 2

    done = uninstall(plane, "--output", "json")
    answer = json.loads(done.stdout)
    left = {one["namespace"]: one["detail"] for one in answer["objects"] if one["action"] == "left"}
    assert (done.exit_code, answer["complete"], len(left)) == (1, False, 2)
    assert "it has no owner" in left[orphan.namespace]
    assert "fleethook.io/undo is damaged" in left[damaged.namespace]
    assert [one.workload("beijing") for one in (orphan, damaged)] == before
    check_no_override(*subjects)
    for one in (orphan, damaged):
        admin.delete(one.paths["beijing"])
    last = uninstall(plane, "--crds")
    assert last.exit_code == 0, last.output
    assert admin.call("GET", f"{CRDS}/yurtappsets.apps.openyurt.io")[0] == 200


def limited_user(plane: ControlPlane, admin: Api) -> Path:
    """Return the kubeconfig of a user who may do everything but write workloads."""
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "delete"]}
    grant(admin, "limited", [every], {"kind": "User", "name": "limited"})
    return plane.kubeconfig("limited", plane.authority.issue("limited"))
