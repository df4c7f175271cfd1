from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

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
