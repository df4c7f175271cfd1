"""The sdist and the wheel of `make dist`, in a clean environment, away from the repository."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fleethook import __version__
from tests.distribution.conftest import VARIABLE
from tests.serving import EXAMPLES, MUTATE, REVIEW, ROOT, Server, patched, started
from tests.waiting import NET

STORY = EXAMPLES / "yurtappoverrider" / "story-2"


def find_files() -> tuple[Path, Path]:
    """Return the sdist and the wheel."""
    directory = ROOT / os.environ[VARIABLE]
    assert sorted(file.name for file in directory.iterdir() if file.name[0] != ".") == [
        f"fleethook-{__version__}-py3-none-any.whl",
        f"fleethook-{__version__}.tar.gz",
    ]
    return directory / f"fleethook-{__version__}.tar.gz", directory / f"fleethook-{__version__}-py3-none-any.whl"


def run(*command: object, directory: Path) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=directory, capture_output=True, text=True, timeout=NET, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def list_packaged() -> set[str]:
    """Return the files of the package that are in Git, without the sources of the console's bundle."""
    listed = run("git", "ls-files", "app/fleethook", directory=ROOT)
    names = (name for name in listed.split() if not name.startswith("app/fleethook/console/assets/"))
    return {name.removeprefix("app/") for name in names}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs in a new environment with the pinned dependencies and the wheel."""
    environment = tmp_path_factory.mktemp("dist") / "venv"
    run(sys.executable, "-m", "venv", environment, directory=ROOT)
    install = [environment / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "--require-hashes", "-r", ROOT / "requirements" / "run.txt", directory=ROOT)
    run(*install, "--no-deps", find_files()[1], directory=ROOT)
    return environment / "bin"


def test_the_wheel_has_every_file_of_the_packages() -> None:
    with zipfile.ZipFile(find_files()[1]) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == list_packaged()


def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    sdist, wheel = find_files()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    directory = tmp_path / f"fleethook-{__version__}"
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", directory=directory)
    assert (directory / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_installed_programs_report_their_version(installed: Path, tmp_path: Path) -> None:
    for program in ("fleethook", "kubectl-fleethook"):
        assert run(installed / program, "--version", directory=tmp_path) == f"fleethook {__version__}\n"
    assert run(installed / "pip", "check", directory=tmp_path) == "No broken requirements found.\n"


def test_the_installed_program_renders(installed: Path, tmp_path: Path) -> None:
    files = ("-f", STORY / "yurtappset.yaml", "-f", STORY / "overrider.yaml")
    rendered = json.loads(run(installed / "fleethook", "render", *files, "-o", "json", directory=tmp_path))
    assert [one["pool"] for one in rendered if one["changes"]] != []


def test_the_installed_program_serves_the_review_of_the_readme(installed: Path, tmp_path: Path) -> None:
    command = [str(installed / "fleethook"), "serve", "--manifests", str(ROOT / "examples"), "--port", "0"]
    command += ["--cert-dir", str(tmp_path / "certs")]
    log = tmp_path / "server.log"
    with started(command, log, r"serves on https://.*:(\d+)") as (process, port):
        server = Server(process, port, tmp_path / "certs" / "ca.crt", log)
        status, body = server.request("POST", MUTATE, REVIEW.read_bytes())
        assert server.stop() == 0
    assert status == 200
    review: Any = json.loads(REVIEW.read_bytes())
    workload = patched(review["request"]["object"], json.loads(body)["response"])
    assert workload != review["request"]["object"]
