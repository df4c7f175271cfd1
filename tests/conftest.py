"""Shared fixtures, the profiles of Hypothesis, and a header that names the control plane."""

import gc
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fleethook.outbound.calls_and_retries import HookClient
from tests.e2e.controlplane import build
from tests.hook_server import RawHook, run_raw_hook
from tests.hypothesis_profiles import describe_seed, draw_seed, register_profiles

register_profiles()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed before Hypothesis reads the option."""
    draw_seed(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let Ctrl-C end the programs that a test starts.

    They inherit that a shell lets processes in the background ignore it, and so does a server that ended in this one.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect the tests without the collector of garbage, which then ignores them.

    The tests are a million objects: each run of the collector over them takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


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


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the versions of the control plane, if there is one, and the seed of random examples."""
    return [_describe_control_plane(), *describe_seed(config)]


def _describe_control_plane() -> str:
    directory = build.find()
    if directory is None:
        return "control plane: none (make controlplane builds it for the end-to-end tests)"
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
