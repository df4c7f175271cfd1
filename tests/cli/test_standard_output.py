"""Failures of standard output: each command prints one line on standard error, and exits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import NET

ROOT = Path(__file__).parents[2]
FULL = "fleethook: cannot write to standard output: no space left on device\n"
NON_ASCII = (
    "apiVersion: apps.openyurt.io/v1alpha1\nkind: YurtAppOverrider\nmetadata: {name: Gr\xf6\xdfe}\nsubject: {}\n"
)
# Not valid UTF-8, but a file name on Linux.
BROKEN = b"/tmp/\xff.yaml"


def run(
    *arguments: str | bytes, stdout: int | None = subprocess.PIPE, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the program in a process of its own, because the test is about the streams of the process."""
    kept = {name: value for name, value in os.environ.items() if name != "LC_ALL" and not name.startswith("PYTHON")}
    code = "from fleethook.cli.command_line import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=False, stdout=stdout, stderr=subprocess.PIPE, timeout=NET, cwd=ROOT, env={**kept, **environment},
    )  # fmt: skip


def test_a_full_standard_output_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = run("render", "--help", stdout=full.fileno())
    assert (done.returncode, done.stderr.decode()) == (2, FULL)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_an_error_within_a_command(tmp_path: Path, unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(
            "crds", "--data-dir", str(tmp_path), "cache", "ls", stdout=full.fileno(), PYTHONUNBUFFERED=unbuffered
        )
    assert (done.returncode, done.stderr.decode()) == (2, FULL)


def test_a_server_that_cannot_print_its_address_stops_without_a_traceback(tmp_path: Path) -> None:
    arguments = ("serve", "--manifests", "examples/yurtappoverrider", "--port", "0", "--cert-dir", str(tmp_path))
    with Path("/dev/full").open("wb") as full:
        done = run(*arguments, stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.decode().endswith(FULL)
    assert "Traceback" not in done.stderr.decode()


def test_a_closed_standard_output_is_an_error() -> None:
    # With "exec", the shell does not open a standard output for Python.
    command = ["/bin/sh", "-c", 'exec "$0" -m fleethook --version >&-', sys.executable]
    done = subprocess.run(command, check=False, capture_output=True, timeout=NET, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == b"fleethook: cannot write to standard output: it is closed\n"


def test_a_closed_standard_error_keeps_the_exit_code() -> None:
    command = ["/bin/sh", "-c", 'exec "$0" -m fleethook lint /nowhere.yaml 2>&-', sys.executable]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, timeout=NET, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_closed_pipe_exits_1_without_a_message() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("lint", "--help", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_text_is_utf_8_in_each_locale(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "a.yaml").write_text(NON_ASCII, encoding="utf-8")
    done = run("lint", "-f", str(tmp_path), **environment)
    assert (done.returncode, "Gr\xf6\xdfe" in done.stdout.decode()) == (1, True)


def test_a_file_name_that_is_not_utf_8_is_printed_with_escapes() -> None:
    done = run("lint", BROKEN, LC_ALL="C.UTF-8")
    assert (done.returncode, done.stderr) == (
        2,
        b"fleethook: /tmp/\\udcff.yaml: cannot be read: No such file or directory\n",
    )


def test_an_argument_in_utf_8_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "ä").mkdir()
    done = run("crds", "--data-dir", str(tmp_path / "ä"), "cache", "ls", LC_ALL="C.UTF-8")
    assert (done.returncode, done.stdout) == (0, b"the cache is empty\n")
