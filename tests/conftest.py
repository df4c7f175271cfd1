"""Shared fixtures, and a report of the control plane of a test run."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from app.outbound.client import HookClient
from tests.e2e.controlplane import build
from tests.hook_server import RawHook, run_raw_hook

# Benchmarks measure durations; the duration of an example beside other tests on few cores means nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REMEDY = "install Go, and make test builds one"


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[RawHook]:
    async with run_raw_hook(tmp_path) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HookClient]:
    async with HookClient(allow_private=True) as made:
        yield made


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """The file for a download, in its own directory."""
    (tmp_path / "new").mkdir()
    return tmp_path / "new" / "crds.tar.gz"


def pytest_report_header() -> str:
    """Print the versions of the control plane, or that there is none."""
    directory = build.find()
    if directory is None:
        return f"control plane: NONE, so every end-to-end test is SKIPPED ({REMEDY})"
    versions = [
        _first_line([str(directory / "kube-apiserver"), "--version"]),
        _first_line([str(directory / "etcd"), "--version"]),
    ]
    if program := shutil.which("kubectl"):
        versions.append("kubectl " + _first_line([program, "version", "--client"]).rpartition(" ")[2])
    return f"control plane: {', '.join(versions)} ({_origin(directory)})"


def _first_line(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (result.stdout or result.stderr).partition("\n")[0]


def _origin(directory: Path) -> str:
    return "built from Go modules" if directory == build.cache() else "KUBEBUILDER_ASSETS"


def pytest_terminal_summary(terminalreporter: object) -> None:
    """Repeat the notice at the end of the run."""
    skipped = getattr(terminalreporter, "stats", {}).get("skipped", [])
    count = sum("no control plane" in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(  # type: ignore[attr-defined]
            f"!!! {count} END-TO-END TESTS WERE SKIPPED: there is no control plane ({REMEDY})",
            red=True,
        )
