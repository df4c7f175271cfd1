"""`make docs` builds the pages, and fails for a broken link."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import ROOT
from tests.waiting import NET


def build(directory: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command of `make docs` for a copy of docs/."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("docsite/hooks.py", f"{ROOT}/docsite/hooks.py")
    (directory / "mkdocs.yml").write_text(config)
    recipe = subprocess.run(
        ["make", "--no-print-directory", "-n", "docs", "ARGS="], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    variable, program, *arguments = shlex.split(recipe.strip().splitlines()[-1])
    assert (variable.partition("=")[0], Path(program).name) == ("NO_MKDOCS_2_WARNING", "mkdocs")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *arguments], cwd=directory, capture_output=True, text=True, timeout=NET,
        check=False, env={"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_the_pages_build_without_warnings(copy: Path) -> None:
    done = build(copy)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    assert (copy / "site" / "tutorials" / "overriders" / "index.html").exists()


def test_a_new_page_is_in_the_navigation(copy: Path) -> None:
    (copy / "docs" / "brand-new.md").write_text("# Brand new subject\n")
    assert build(copy).returncode == 0
    assert "Brand new subject" in (copy / "site" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("link", ["nowhere.md", "crds.md#nowhere", "../nowhere.py"])
def test_a_broken_link_fails(copy: Path, link: str) -> None:
    with (copy / "docs" / "index.md").open("a") as page:
        page.write(f"\n[broken]({link})\n")
    done = build(copy)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
