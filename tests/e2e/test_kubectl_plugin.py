"""kubectl finds and runs the plugin. It needs no cluster."""

import os
import subprocess
import sys
from pathlib import Path

from fleethook import __version__
from tests.e2e.cluster import kubectl
from tests.waiting import NET


def run(binaries: Path, *arguments: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        [str(kubectl(binaries)), *arguments],
        capture_output=True, text=True, timeout=NET, check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_kubectl_runs_the_plugin(binaries: Path) -> None:
    assert run(binaries, "fleethook", "--version") == f"fleethook {__version__}\n"
    assert "kubectl fleethook render" in run(binaries, "fleethook", "render", "--help")
