"""One control plane for the session, a namespace for each test."""

import contextlib
import gc
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.definitions import RESOURCES, custom_resource_definition
from tests.e2e.chart import Release, define
from tests.e2e.cluster import CRDS, Api, ControlPlane, control_plane, is_established
from tests.e2e.controlplane import build
from tests.e2e.crds_controller import BODY, KarmadaFactory, prepare
from tests.e2e.fleet import is_ready, service_account, unregister
from tests.e2e.installation import Installation
from tests.e2e.keep_alive import keep_alive
from tests.e2e.openyurt_crds import install_openyurt_crds
from tests.e2e.replays import Recording
from tests.engines.crds.origin import Origin, serving, tarball
from tests.programs import require_program
from tests.serving import serving as run_server
from tests.waiting import wait_for

MISSING = (
    "no control plane: run `make controlplane` (needs Go), which also builds Helm; or set KUBEBUILDER_ASSETS to a "
    "directory with kube-apiserver, etcd and kube-controller-manager, and install Helm"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests with kube-controller-manager behind all others, so that few workers start its control planes."""
    items.sort(key=_needs_controller_manager)


def _needs_controller_manager(item: pytest.Item) -> bool:
    fixtures, module = getattr(item, "fixturenames", ()), getattr(item, "module", None)
    return "VERSIONS" in vars(module) or "managed_plane" in fixtures or "openyurt_plane" in fixtures


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """Collect garbage after each test, so that an unclosed resource fails the test that left it open."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def binaries() -> Path:
    return require_program(build.find(), MISSING)


@pytest.fixture(scope="session")
def controller_manager() -> Path:
    """The program kube-controller-manager."""
    return require_program(build.find_controller_manager(), MISSING)


@pytest.fixture(scope="session")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(binaries, tmp_path_factory.mktemp("controlplane")) as running:
        yield running


@pytest.fixture(scope="session")
def managed_plane(
    binaries: Path, controller_manager: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A second control plane, with kube-controller-manager, which would create ReplicaSets and Pods in the first one."""
    with control_plane(binaries, tmp_path_factory.mktemp("managed")) as running:
        running.start_controller_manager(controller_manager)
        install_crds(running.api())
        yield running


@pytest.fixture(scope="session")
def openyurt_plane(
    binaries: Path, controller_manager: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A third control plane, with OpenYurt's own definitions as of 1.7; ours of the same kinds have other versions."""
    with control_plane(binaries, tmp_path_factory.mktemp("openyurt")) as running:
        running.start_controller_manager(controller_manager)
        install_openyurt_crds(running.api())
        yield running


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> Api:
    return plane.api()


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """An administrator's client for a test with many requests."""
    with keep_alive(plane.api()) as made:
        yield made


@pytest.fixture(scope="session")
def crds(admin: Api) -> None:
    """Our CustomResourceDefinitions, installed and established."""
    install_crds(admin)


def install_crds(admin: Api) -> None:
    for resource in RESOURCES:
        definition = custom_resource_definition(resource)
        admin.apply(f"{CRDS}/{definition['metadata']['name']}", definition)
    for resource in RESOURCES:
        name = custom_resource_definition(resource)["metadata"]["name"]
        wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")


@pytest.fixture
def namespace(admin: Api) -> str:
    """A namespace for one test; nothing deletes it, because no namespace controller runs."""
    return new_namespace(admin)


def new_namespace(admin: Api) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def kubectl(binaries: Path, kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """Run kubectl and return its output; a failure shows its error text."""
    from tests.e2e.cluster import kubectl as program  # noqa: PLC0415 - same name

    result = subprocess.run(
        [program(binaries), "--kubeconfig", str(kubeconfig), *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def manifest(*documents: object) -> str:
    return yaml.safe_dump_all(documents)


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Path:
    """The kubeconfig of the controller for CRD tarballs."""
    return prepare(plane)


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(BODY)) as running:
        yield running


@pytest.fixture
def make(admin: Api, namespace: str) -> Iterator[KarmadaFactory]:
    made = KarmadaFactory(admin, namespace)
    yield made
    made.remove_all()


@pytest.fixture
def installation(plane: ControlPlane, crds: None, tmp_path: Path) -> Iterator[Installation]:
    yield Installation(plane, tmp_path)
    unregister(plane.api())


@pytest.fixture(scope="session")
def helm(binaries: Path) -> Path:
    return require_program(build.find_helm(), MISSING)


@pytest.fixture(scope="module")
def kcp_kinds(admin: Api) -> None:
    """The kinds of kcp on an ordinary apiserver, with the cluster in an annotation."""
    for group, version, kind in (
        ("apis.kcp.io", "v1alpha2", "APIBinding"), ("apis.kcp.io", "v1alpha2", "APIExport"),
        ("apis.kcp.io", "v1alpha1", "APIResourceSchema"), ("core.kcp.io", "v1alpha1", "LogicalCluster"),
        ("tenancy.kcp.io", "v1alpha1", "Workspace"),
    ):  # fmt: skip
        define(admin, group, version, kind, scope="Cluster")


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane, admin: Api, crds: None) -> Path:
    """An administrator's kubeconfig, for a cluster that also has the kinds of cert-manager and Prometheus."""
    for group, kind in (
        ("cert-manager.io", "Issuer"), ("cert-manager.io", "Certificate"), ("monitoring.coreos.com", "ServiceMonitor"),
        ("monitoring.coreos.com", "PrometheusRule"),
    ):  # fmt: skip
        define(admin, group, "v1", kind, scope="Namespaced")
    return plane.kubeconfig("chart")


@pytest.fixture
def release(helm: Path, plane: ControlPlane, kubeconfig: Path, namespace: str) -> Iterator[Release]:
    made = Release(helm, plane, kubeconfig, namespace)
    made.install()
    yield made
    with contextlib.suppress(AssertionError):
        made.helm("uninstall", "fleethook")


@pytest.fixture
def put(admin: Api) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """Applies objects below a path, and deletes them after the test."""
    made: list[str] = []

    def apply(path: str, document: dict[str, Any]) -> Any:
        where = f"{path}/{document['metadata']['name']}"
        made.append(where)
        return admin.apply(where, document)

    yield apply
    for where in dict.fromkeys(reversed(made)):
        admin.delete(where)


@pytest.fixture(scope="module")
def recording(plane: ControlPlane, kcp_kinds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    directory = tmp_path_factory.mktemp("recording")
    records = directory / "records"
    arguments = ("--kubeconfig", str(service_account(plane)), "--record", str(records))
    # test_dispatch_access tests which callers are allowed.
    with run_server(directory, *arguments, manifests=None, FLEETHOOK_DISPATCH_OPEN="loopback") as server:
        wait_for(lambda: is_ready(server), what="the server is ready")
        yield Recording(server, records)
