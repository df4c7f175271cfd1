from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fake_cluster import Cluster, serve_cluster

WriteYAML = Callable[..., str]


@pytest.fixture
def write_yaml(tmp_path: Path) -> WriteYAML:
    """Return a function that writes documents to a file by its name, and returns the file's path."""

    def write(name: str, *documents: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return write


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    """A cluster without objects, and the options with which a command reads it."""
    with serve_cluster(tmp_path) as served:
        yield served
