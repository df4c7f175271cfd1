"""The commands of pages that need a cluster, on a control plane of their own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.blocks import Block, list_pages, read_blocks
from tests.documentation.shell import Shell, open_shell
from tests.e2e.chart import Release
from tests.e2e.cluster import ControlPlane, control_plane
from tests.e2e.cluster import kubectl as find_kubectl
from tests.e2e.fleet import NAMESPACE, is_trusted
from tests.serving import ROOT
from tests.waiting import wait_for

README = ROOT / "README.md"
INSTALLING = ROOT / "docs" / "how-to" / "install.md"


def list_blocks(page: Path) -> list[Block]:
    return [block for block in read_blocks(page) if block.needs_cluster]


@pytest.fixture(scope="module")
def own_plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(binaries, tmp_path_factory.mktemp("documentation")) as running:
        yield running


@pytest.fixture(scope="module")
def release(helm: Path, own_plane: ControlPlane) -> Release:
    """The release of the pages. Its server runs beside the apiserver, because no kubelet runs here."""
    user = {
        "client-certificate": str(own_plane.admin.certificate), "client-key": str(own_plane.admin.key)
    }  # fmt: skip
    made = Release(helm, own_plane, own_plane.kubeconfig("reader", user), NAMESPACE)
    made.values["crds"] = {"subjects": True}
    return made


@pytest.fixture
def shell(release: Release, own_plane: ControlPlane, binaries: Path, helm: Path, tmp_path: Path) -> Iterator[Shell]:
    """A shell with Helm and kubectl. Installations get the address of the server outside of the cluster."""
    values = tmp_path / "values.json"
    values.write_text(json.dumps(release.values))
    work = tmp_path / "work"
    work.mkdir()
    with open_shell(work, KUBECONFIG=str(own_plane.directory / "reader.kubeconfig")) as opened:
        opened.add_program("helm", f'[ "$1" != install ] || set -- "$@" --values {values}\nexec {helm} "$@"')
        opened.add_program("kubectl", f'exec {find_kubectl(binaries)} "$@"')
        yield opened


def test_each_page_that_needs_a_cluster_is_run() -> None:
    assert [page for page in list_pages() if list_blocks(page)] == [README, INSTALLING]


def test_the_readme_installs_the_chart(shell: Shell, release: Release, own_plane: ControlPlane) -> None:
    for block in list_blocks(README):
        shell.run_block(block)
    assert own_plane.api()[f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fleethook"]["spec"]["replicas"] == 2
    release.helm("uninstall", "fleethook")


def test_a_reader_installs_overrides_and_uninstalls(
    shell: Shell, release: Release, own_plane: ControlPlane, tmp_path: Path
) -> None:
    first, *others = list_blocks(INSTALLING)
    shell.run_block(first)
    with release.server(tmp_path) as server:
        wait_for(lambda: is_trusted(own_plane.api(), server), what="the apiserver trusts the server")
        for block in others:
            shell.run_block(block)
