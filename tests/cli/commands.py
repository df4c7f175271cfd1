"""Runs the ``fleethook`` command in a process of its own."""

import os
import subprocess
import sys

from tests.serving import ROOT
from tests.waiting import NET


def run_command(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command from the root of the repository, with additional environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=NET,
        check=False,
        input=stdin,
        env={**os.environ, **environment},
    )
