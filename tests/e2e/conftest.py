"""One control plane for the session, a namespace for each test."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.model.crd import RESOURCES, custom_resource_definition
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.controlplane import build
from tests.waiting import wait_for

REQUIRED = "FLEETHOOK_REQUIRE_CONTROLPLANE"
MISSING = (
    "no control plane: run `make controlplane` (takes Go), which also builds Helm; or set KUBEBUILDER_ASSETS to a "
    "directory with kube-apiserver and etcd, and install Helm"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all of these tests to one worker, so that there is one control plane."""
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("controlplane"))


def there(found: Path | None) -> Path:
    """Return what was found; without it the test is skipped, which the run says loudly, or fails where CI asks for that."""
    if found is not None:
        return found
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, but there is {MISSING}")
    # The README's promise: on a machine without Go or the binaries, the other tests still pass.
    pytest.skip(MISSING)


@pytest.fixture(scope="session")
def binaries() -> Path:
    return there(build.find())


@pytest.fixture(scope="session")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(binaries, tmp_path_factory.mktemp("controlplane")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> Api:
    return plane.api()


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


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
        wait_for(lambda name=name: established(admin, name), what=f"{name} is established")


def established(admin: Api, name: str) -> bool:
    conditions = (admin[f"{CRDS}/{name}"].get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


@pytest.fixture
def namespace(admin: Api) -> str:
    """A namespace of this test's own; nothing deletes it, as no controller manager runs."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def kubectl(binaries: Path, kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """Run kubectl and return what it printed; its error text is the failure's."""
    from tests.e2e.cluster import kubectl as program  # noqa: PLC0415 - same name

    result = subprocess.run(
        [program(binaries), "--kubeconfig", str(kubeconfig), *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def manifest(*documents: object) -> str:
    return yaml.safe_dump_all(documents)
