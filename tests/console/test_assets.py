"""The committed bundle is built from the sources, and small."""

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.serving import ROOT

STATIC = ROOT / "app" / "console" / "static"
MAX_BUNDLE_BYTES = 400_000


@pytest.fixture
def node() -> Path:
    found = shutil.which("node")
    installed = found is not None and (ROOT / "node_modules" / "stamp").exists()
    return require_program(
        Path(found) if found and installed else None, "no packages of Node: run `make console-assets`"
    )


def read_all(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def test_the_bundle_is_the_one_that_the_sources_make(node: Path, tmp_path: Path) -> None:
    subprocess.run([str(node), "app/console/assets/build.mjs", str(tmp_path)], cwd=ROOT, check=True)
    assert read_all(STATIC) == read_all(tmp_path)


def test_the_bundle_is_small() -> None:
    assert sum(len(gzip.compress(text)) for text in read_all(STATIC).values()) <= MAX_BUNDLE_BYTES


def test_the_lock_file_names_no_registry() -> None:
    assert "http" not in "".join(
        line for line in (ROOT / "package-lock.json").read_text().splitlines() if "resolved" in line
    )
