"""Runs the pages that need a cluster. test_documentation.py starts this file in a network of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.blocks import list_transcripts
from tests.documentation.own_network import enable_loopback
from tests.documentation.shell import open_shell
from tests.e2e.chart import Release
from tests.e2e.cluster import ControlPlane, control_plane
from tests.e2e.cluster import kubectl as find_kubectl
from tests.e2e.fleet import NAMESPACE, is_trusted
from tests.waiting import wait_for


@pytest.fixture
def own_plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    enable_loopback()
    with control_plane(binaries, tmp_path_factory.mktemp("documentation")) as running:
        yield running


def test_a_reader_installs_overrides_and_uninstalls(
    helm: Path, own_plane: ControlPlane, binaries: Path, tmp_path: Path
) -> None:
    """The server of the release runs beside the apiserver, because no kubelet runs here; Helm gets its address."""
    readme, admission, installing = list_transcripts(with_cluster=True)
    release = Release(helm, own_plane, own_plane.kubeconfig("reader"), NAMESPACE)
    release.values["crds"] = {"subjects": True}
    values = tmp_path / "values.json"
    values.write_text(json.dumps(release.values))
    work = tmp_path / "work"
    work.mkdir()
    with open_shell(work, KUBECONFIG=str(own_plane.directory / "reader.kubeconfig")) as shell:
        shell.add_program("helm", f'[ "$1" != install ] || set -- "$@" --values {values}\nexec {helm} "$@"')
        shell.add_program("kubectl", f'exec {find_kubectl(binaries)} "$@"')

        shell.run_page(readme)
        stored = own_plane.api()[f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fleethook"]
        assert stored["spec"]["replicas"] == 2
        release.helm("uninstall", "fleethook")
        shell.run_page(admission)

        first, *others = installing
        shell.run_page([first])
        with release.server(tmp_path) as server:
            wait_for(lambda: is_trusted(own_plane.api(), server), what="the apiserver trusts the server")
            shell.run_page(others)
        shell.stop_servers()
