"""These tests run a built image. `make image-test` names it; without a name, pytest does not collect them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from image.tool import find_tool
from tests.image.container import Image

VARIABLE = "FLEETHOOK_IMAGE"

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    with Image(find_tool(), os.environ[VARIABLE]) as opened:
        yield opened


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The examples, in a directory that the user of the image can read."""
    copied = tmp_path / "examples"
    shutil.copytree(Path(__file__).parents[2] / "examples", copied)
    for directory in (copied, *copied.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o055)
    return copied
