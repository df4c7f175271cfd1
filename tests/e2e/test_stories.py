"""The proposal's stories on a real apiserver: applied with kubectl, rendered at admission, read back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.conftest import kubectl
from tests.e2e.fleet import OPENYURT, run_registered_server
from tests.e2e.workloads import images, path_of, workload_of
from tests.serving import EXAMPLES, Server

STORIES = EXAMPLES / "yurtappoverrider"


@pytest.fixture(scope="module")
def server(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_registered_server(plane, tmp_path_factory.mktemp("stories")) as running:
        yield running


@pytest.fixture(scope="module")
def stories(plane: ControlPlane, binaries: Path, admin: Api, server: Server) -> Path:
    """Apply the examples as docs/how-to/install.md does; return the kubeconfig."""
    kubeconfig = plane.kubeconfig("admin")
    for namespace in sorted(path.name for path in STORIES.iterdir()):
        # pytest may set a module up twice, when a process takes tests of it from another process.
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        admin.apply(f"/api/v1/namespaces/{namespace}", document)
    apply_examples(binaries, kubeconfig)
    return kubeconfig


def apply_examples(binaries: Path, kubeconfig: Path) -> list[str]:
    """Apply the examples with kubectl, and return its lines about the objects."""
    files = [
        EXAMPLES / "nodepools.yaml",
        *sorted(STORIES.glob("*/*.yaml"), key=lambda path: path.name == "overrider.yaml"),
    ]
    printed = (kubectl(binaries, kubeconfig, "apply", "-f", str(file)) for file in files)
    return [line for output in printed for line in output.splitlines()]


def create_workload(admin: Api, story: str, subject: str, pool: str) -> dict[str, Any]:
    """Create a pool's workload as its owner's controller does and return it as it is stored."""
    namespace, _, name = subject.partition("/")
    owner = admin[f"{OPENYURT}/namespaces/{story}/{namespace}/{name}"]
    made = workload_of(owner, pool)
    answer = admin.create(path_of(made), made)
    return dict(admin[path_of({**made, "metadata": answer["metadata"]})])


def test_the_examples_can_be_applied_again(stories: Path, binaries: Path) -> None:
    again = apply_examples(binaries, stories)
    assert again
    assert [line for line in again if not line.endswith(" unchanged")] == []


@pytest.mark.parametrize(
    ("pool", "image", "replicas"),
    [("beijing", "nginx:1.14.2", 3), ("hangzhou", "nginx:1.14.2", 3), ("shanghai", "nginx:1.13.2", 5)],
)
def test_story_2_image_and_replicas_by_region(stories: Path, admin: Api, pool: str, image: str, replicas: int) -> None:
    stored = create_workload(admin, "story-2", "yurtappsets/yurtappset-demo", pool)
    assert (images(stored), stored["spec"]["replicas"]) == ({"nginx": image}, replicas)
    assert "fleethook.io/rendered" in stored["metadata"]["annotations"]


@pytest.mark.parametrize(("pool", "image"), [("beijing", "demo:1.0"), ("hangzhou", "xxx:latest")])
def test_story_3_gray_release(stories: Path, admin: Api, pool: str, image: str) -> None:
    stored = create_workload(admin, "story-3", "yurtappsets/yurtappset-demo", pool)
    assert images(stored) == {"demo": image}
    assert ("fleethook.io/rendered" in stored["metadata"].get("annotations", {})) == (pool == "hangzhou")


@pytest.mark.parametrize(
    ("pool", "image"),
    [
        ("beijing", "demo:1.0"),
        ("hangzhou", "registry.hangzhou.example.com:5000/demo:1.0"),
        ("shanghai", "registry.shanghai.example.com:5000/demo:1.0"),
    ],
)
def test_story_4_the_registry_of_each_region(stories: Path, admin: Api, pool: str, image: str) -> None:
    assert images(create_workload(admin, "story-4", "yurtappsets/yurtappset-demo", pool)) == {"demo": image}


@pytest.mark.parametrize(
    ("pool", "path"), [("hangzhou", "/var/lib/docker"), ("beijing", "/data/logs"), ("shanghai", None)]
)
def test_story_5_a_host_path_of_each_pool(stories: Path, admin: Api, pool: str, path: str | None) -> None:
    pods = create_workload(admin, "story-5", "yurtappsets/yurtappset-demo", pool)["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pods["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in pods["containers"][0]["volumeMounts"]}
    expected = {"test-volume": path} if path else {}
    assert volumes == {"config": None, **expected}
    assert mounts == {"config": "/etc/demo", **expected}


def test_story_1_a_daemon_and_a_stateful_set(stories: Path, admin: Api) -> None:
    daemon = create_workload(admin, "story-1", "yurtappdaemons/yurtappdaemon-demo", "hangzhou")
    pods = daemon["spec"]["template"]["spec"]
    assert images(daemon) == {"agent": "agent:1.1"}
    assert pods["containers"][0]["env"] == [{"name": "REGION", "value": "hangzhou"}]
    stateful = create_workload(admin, "story-1", "yurtappsets/yurtappset-stateful", "shanghai")
    assert (stateful["kind"], stateful["spec"]["replicas"]) == ("StatefulSet", 3)
    untouched = create_workload(admin, "story-1", "yurtappsets/yurtappset-stateful", "beijing")
    assert untouched["spec"]["replicas"] == 1


def test_foreign_workloads_are_not_sent_to_fleethook(stories: Path, admin: Api, server: Server, namespace: str) -> None:
    """Without pool label, without owner, or being deleted: writes succeed even if no server answers."""
    server.process.send_signal(19)  # SIGSTOP: no server answers
    try:
        plain = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "plain", "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        }
        admin.create(path_of({**plain, "metadata": {"namespace": namespace}}), plain)
        labelled = {**plain, "metadata": {**plain["metadata"], "name": "labelled"}}
        labelled["metadata"]["labels"] = {"apps.openyurt.io/pool-name": "hangzhou"}
        labelled["metadata"]["finalizers"] = ["example.com/held"]
        admin.create(path_of({**labelled, "metadata": {"namespace": namespace}}), labelled)
        admin.delete(path_of(labelled))
        released = admin.merge(path_of(labelled), {"metadata": {"finalizers": None}})
        assert released["metadata"]["name"] == "labelled"
    finally:
        server.process.send_signal(18)  # SIGCONT
