"""Runs of the tests: in the background, and the same examples each time."""

import re
import subprocess
import sys
from pathlib import Path

from tests.serving import ROOT

TESTS = """
import signal, subprocess, sys
from hypothesis import given, strategies

@given(strategies.integers())
def test_draws(number):
    print("drawn", number)

def test_interrupts():
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1, stderr=-3) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == -signal.SIGINT
"""


def run_tests(directory: Path, *options: str) -> str:
    (directory / "test_it.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-c",
        "pyproject.toml",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
    ]
    # A shell without job control starts programs in the background in this way.
    done = subprocess.run(
        ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, *options, str(directory)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_pass_in_the_background_with_the_same_examples_each_time(tmp_path: Path) -> None:
    first, second = (re.findall("drawn .*", run_tests(tmp_path)) for _ in range(2))
    assert len(first) > 5
    assert first == second
