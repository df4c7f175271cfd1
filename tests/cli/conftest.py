from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper
from tests.cli.commands import Result, invoke
from tests.cli.fake_cluster import Cluster, serve_cluster
from tests.engines.crds.origin import Origin, serving, tarball
from tests.engines.crds.tarballs import release

WriteYAML = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may read the cluster that the user of this machine has chosen."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")


@pytest.fixture
def write_yaml(tmp_path: Path) -> WriteYAML:
    """Return a function that writes documents to a file by its name, and returns the file's path."""

    def write(name: str, *documents: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.dump_all(documents, Dumper=NoAliasDumper))
        return str(path)

    return write


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    """A cluster without objects, and the options with which a command reads it."""
    with serve_cluster(tmp_path) as served:
        yield served


@pytest.fixture
def origin() -> Iterator[Origin]:
    """An origin with a release."""
    with serving(tarball(release())) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """A function that runs ``fleethook crds`` with a cache of its own, and checks the exit code."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, code: int = 0) -> Result:
        result = invoke(["crds", "--data-dir", str(tmp_path / "data"), *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result

    return run
